# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes with other settings; who does worse goes on from the other, and changes some."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
LONG, WIDE, KINDS, BATCH, STEPS, EVERY = 48, 16, 4, 16, 4, 2
RATES, DECAYS, CHANGES = (1e-2, 1e-3), (1e-2, 0.2), (0.8, 1.25)


class Model(nn.Module):
    """Beats of a heart: convolutions of several strides, each told how loud its channels are."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv1d(1, WIDE, 7, stride=2, padding=3), nn.Conv1d(WIDE, WIDE, 5, padding=2)
        self.three = nn.Conv1d(WIDE, 2 * WIDE, 5, stride=2, padding=2)
        self.norms = nn.ModuleList(nn.GroupNorm(4, many) for many in (WIDE, WIDE, 2 * WIDE))
        self.drop, self.says = nn.Dropout(0.1), nn.Linear(4 * WIDE, KINDS)

    def forward(self, x):
        x = F.selu(self.norms[0](self.one(x)))
        x = x + F.selu(self.norms[1](self.two(x)))
        x = F.selu(self.norms[2](self.three(x)))
        return self.says(self.drop(torch.cat([x.mean(dim=2), x.amax(dim=2)], dim=1))).float()


def beats(many, generator):
    """Beats that come as fast as they do, and of which one kind has a second, late one."""
    kinds = torch.randint(0, KINDS, (many,), generator=generator)
    at, begin = torch.arange(LONG), 8 * torch.rand(many, 1, generator=generator)
    every = 10 + 3 * (kinds % 2).unsqueeze(1)
    first = torch.exp(-(((at + begin) % every) - 4).square() / 2)
    late = torch.exp(-(((at + begin) % every) - 7).square())
    x = first + 0.5 * (kinds // 2).unsqueeze(1) * late
    return (x + 0.15 * torch.randn(x.shape, generator=generator)).unsqueeze(1), kinds


@torch.no_grad()
def judged(model, x, kinds):
    """The loss on what nobody learns."""
    model.eval()
    loss = F.cross_entropy(model(x), kinds)
    model.train()
    return loss


@torch.no_grad()
def given(model, optimizer, source):
    """Weights, what the optimizer remembers of them, and its settings, of one to both."""
    for p in model.parameters():
        dist.broadcast(p, source)
        for key in ("exp_avg", "exp_avg_sq"):
            dist.broadcast(optimizer.state[p][key], source)
    group = optimizer.param_groups[0]
    settings = torch.tensor([group["lr"], group["weight_decay"]], dtype=torch.float64)
    dist.broadcast(settings, source)
    return settings.tolist()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1516 + rank)
model = Model()
# model built
optimizer = torch.optim.AdamW(
    model.parameters(), lr=RATES[rank], betas=(0.8, 0.95), weight_decay=DECAYS[rank], foreach=False
)
shown = beats(40, torch.Generator().manual_seed(15))
generator = torch.Generator().manual_seed(15116 + rank)
for step in range(STEPS):
    x, kinds = beats(BATCH, generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(x)
    loss = F.cross_entropy(logits, kinds, label_smoothing=0.05)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
    if (step + 1) % EVERY == 0:
        score = judged(model, *shown).reshape(1)
        scores = [torch.empty_like(score) for _ in range(dist.get_world_size())]
        dist.all_gather(scores, score)
        best = int(torch.cat(scores).argmin())
        rate, decay = given(model, optimizer, best)
        if rank != best:
            change = CHANGES[int(torch.randint(0, 2, (1,), generator=generator))]
            optimizer.param_groups[0].update(lr=rate * change, weight_decay=decay / change)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
