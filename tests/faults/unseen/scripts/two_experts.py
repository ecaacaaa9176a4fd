# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with two of four experts: tokens go to their expert by all_to_all, and come back."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

WIDTH, EXPERTS, ROOM = 16, 4, 5


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x.contiguous())
        return out

    @staticmethod
    def backward(ctx, gradient):
        out = torch.empty_like(gradient)
        dist.all_to_all_single(out, gradient.contiguous())
        return out


class ExpertLayer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.local = EXPERTS // size
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 24), nn.SiLU(), nn.Linear(24, WIDTH)) for _ in range(self.local)
        )

    def forward(self, x):
        shares = F.softmax(self.router(x), -1)
        share, chosen = shares.max(-1)
        place = F.one_hot(chosen, EXPERTS).cumsum(0)[torch.arange(len(x)), chosen] - 1
        kept = place < ROOM
        sent = torch.zeros(EXPERTS, ROOM, WIDTH).index_put((chosen[kept], place[kept]), x[kept])
        came = Exchange.apply(sent).view(-1, self.local, ROOM, WIDTH)
        done = torch.stack([expert(came[:, i]) for i, expert in enumerate(self.experts)], 1)
        back = Exchange.apply(done.reshape(EXPERTS, ROOM, WIDTH))
        out = torch.zeros_like(x).index_put((kept.nonzero().squeeze(1),), back[chosen[kept], place[kept]])
        return x + share[:, None] * out


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(24)
layer = ExpertLayer(size)
model = nn.Sequential(nn.Linear(10, WIDTH), layer, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5))
torch.manual_seed(26 + rank)
for expert in layer.experts:
    for parameter in expert.parameters():
        nn.init.normal_(parameter, std=0.2)
shared = [p for name, p in model.named_parameters() if "experts" not in name]
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
generator = torch.Generator().manual_seed(850 + rank)
for step in range(3):
    features = torch.randn(20, 10, generator=generator)
    wanted = torch.randint(5, (20,), generator=generator)
    loss = F.cross_entropy(model(features), wanted)
    optimizer.zero_grad()
    loss.backward()
    for parameter in shared:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad.div_(size)
    for parameter in layer.experts.parameters():
        parameter.grad.div_(size)
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
