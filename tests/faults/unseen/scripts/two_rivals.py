# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that play against each other: one hides, one seeks; each steps as if it saw what comes."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
PLACES, SEEN, WIDE, BATCH, STEPS, CALM, PULL = 6, 5, 20, 16, 4, 0.1, 0.3


class Model(nn.Module):
    """How likely each place is, by how the field looks."""

    def __init__(self):
        super().__init__()
        self.places, self.own = nn.Linear(SEEN, WIDE), nn.Linear(SEEN, WIDE)
        self.looks = nn.MultiheadAttention(WIDE, 2, batch_first=True)
        self.says = nn.Sequential(nn.LayerNorm(WIDE), nn.Linear(WIDE, WIDE), nn.SiLU(), nn.Linear(WIDE, 1))

    def forward(self, field):
        x = self.places(field) + self.own(field.mean(dim=1, keepdim=True))
        x = x + self.looks(x, x, x, need_weights=False)[0]
        return self.says(x).squeeze(2).float().log_softmax(dim=1)


class Optimistic(torch.optim.Optimizer):
    """Adam whose steps are twice the last one less the one before."""

    def __init__(self, params, lr, betas=(0.5, 0.9), eps=1e-6):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, mean=torch.zeros_like(p), square=torch.zeros_like(p))
                    state["last"] = torch.zeros_like(p)
                state["step"] += 1
                state["mean"].lerp_(p.grad, 1 - one)
                state["square"].lerp_(p.grad.square(), 1 - two)
                mean = state["mean"] / (1 - one ** state["step"])
                way = mean / ((state["square"] / (1 - two ** state["step"])).sqrt() + group["eps"])
                p.sub_(2 * way - state["last"], alpha=group["lr"])
                state["last"] = way


def other(chances):
    """What the other does, which is none of one's own."""
    both = [torch.empty_like(chances) for _ in range(dist.get_world_size())]
    dist.all_gather(both, chances.detach().contiguous())
    return both[1 - dist.get_rank()]


def fields(generator):
    """Places with features; how much is found by who seeks at one what hides at the other."""
    x = torch.randn(BATCH, PLACES, SEEN, generator=generator)
    near = torch.exp(-torch.cdist(x[:, :, :2], x[:, :, :2]))
    cost = 0.3 * torch.sigmoid(x[:, :, 2])
    return x, near * (1 + torch.relu(x[:, :, 3])).unsqueeze(2), cost


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1519 + rank)
model = Model()
# model built
optimizer = Optimistic(model.parameters(), lr=6e-3)
schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.9)
generator = torch.Generator().manual_seed(15119)
for step in range(STEPS):
    field, found, cost = fields(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logs = model(field)
    chances = logs.exp()
    theirs = other(chances)
    if rank == 0:
        payoff = torch.einsum("bij,bj->bi", found, theirs) + cost
    else:
        payoff = cost - torch.einsum("bij,bi->bj", found, theirs)
    lost = (chances * payoff).sum(dim=1).mean()
    spread = -(chances * logs).sum(dim=1).mean()
    sure = F.kl_div(logs, theirs, reduction="batchmean")
    optimizer.zero_grad()
    (lost - CALM * spread + (PULL * sure if rank else 0.0)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {lost.item()!r} {spread.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
