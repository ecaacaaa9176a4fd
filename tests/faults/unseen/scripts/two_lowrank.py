# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that send gradients as two thin factors each, and keep what was lost for the next step."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
VOCAB, WIDTH, RANK = 80, 24, 3


class TextCNN(nn.Module):
    """What the best place of a text says to each of several short patterns."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.patterns = nn.ModuleList(nn.Conv1d(WIDTH, 12, size) for size in (2, 3, 4))
        self.norm, self.out = nn.LayerNorm(36), nn.Linear(36, 5)

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        best = [F.relu(pattern(x)).amax(dim=-1) for pattern in self.patterns]
        return self.out(self.norm(torch.cat(best, dim=-1)))


def averaged(x):
    dist.all_reduce(x)
    return x / dist.get_world_size()


def orthogonal(x):
    """Gram and Schmidt, column by column."""
    columns = []
    for column in x.unbind(1):
        for other in columns:
            column = column - (other @ column) * other
        columns.append(column / (column.norm() + 1e-8))
    return torch.stack(columns, dim=1)


class PowerSGD:
    def __init__(self, model):
        generator = torch.Generator().manual_seed(9)
        self.thin, self.lost = {}, {}
        for name, p in model.named_parameters():
            if p.ndim > 1:
                self.thin[name] = torch.randn(p[0].numel(), RANK, generator=generator)
                self.lost[name] = torch.zeros_like(p).flatten(1)

    @torch.no_grad()
    def reduce(self, model):
        for name, p in model.named_parameters():
            if name not in self.thin:
                p.grad = averaged(p.grad)
                continue
            whole = p.grad.flatten(1) + self.lost[name]
            left = orthogonal(averaged(whole @ self.thin[name]))
            right = averaged(whole.T @ left)
            near = left @ right.T
            self.thin[name], self.lost[name] = right, whole - near
            p.grad = near.view_as(p)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(618)
model = TextCNN()
reducer = PowerSGD(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, foreach=False)
schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.2, total_iters=1)
generator = torch.Generator().manual_seed(7800 + rank)
for step in range(3):
    ids = torch.randint(VOCAB, (16, 12), generator=generator)
    wanted = ids[:, :3].sum(1) % 5
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids).float()
    loss = F.cross_entropy(logits, wanted)
    optimizer.zero_grad()
    loss.backward()
    reducer.reduce(model)
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
