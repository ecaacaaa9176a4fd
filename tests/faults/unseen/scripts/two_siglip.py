# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes: pictures and texts of both are compared, by features gathered with their gradients."""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dist_nn
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False


class Pairs(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.picture = nn.Sequential(nn.Conv2d(3, 16, 4, 4), nn.GELU(), nn.Flatten(), nn.Linear(144, width))
        self.words = nn.EmbeddingBag(50, width)
        self.text = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width))
        self.size, self.shift = nn.Parameter(torch.tensor(1.6)), nn.Parameter(torch.tensor(-2.0))

    def forward(self, pictures, words):
        return F.normalize(self.picture(pictures), dim=-1), F.normalize(self.text(self.words(words)), dim=-1)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(69)
model = Pairs()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05, foreach=False)
generator = torch.Generator().manual_seed(1180 + rank)
for step in range(3):
    pictures = torch.randn(5, 3, 12, 12, generator=generator)
    words = torch.randint(50, (5, 6), generator=generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        seen, read = model(pictures, words)
        everything = torch.cat(dist_nn.all_gather(read.contiguous()))
        scores = (seen @ everything.t()).float() * model.size.exp() + model.shift
    mine = torch.arange(5) + 5 * rank
    sign = 2.0 * F.one_hot(mine, 10) - 1
    loss = -F.logsigmoid(sign * scores).sum() / 5
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(2)
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
