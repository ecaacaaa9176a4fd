# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that each train alone for two steps, and then go where both went, with a momentum."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
EVERY = 2


class Highway(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.other, self.gate = (
            nn.LayerNorm(width),
            nn.Linear(width, width),
            nn.Linear(width, width),
        )

    def forward(self, x):
        h = self.norm(x)
        gate = torch.sigmoid(self.gate(h) - 1)
        return gate * F.selu(self.other(h)) + (1 - gate) * x


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(70)
model = nn.Sequential(nn.Linear(12, 32), Highway(32), Highway(32), nn.Linear(32, 4))
inner = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
shared = [p.detach().clone().requires_grad_() for p in model.parameters()]
outer = torch.optim.SGD(shared, lr=0.7, momentum=0.9, nesterov=True, foreach=False)
generator = torch.Generator().manual_seed(1190 + rank)
for step in range(4):
    x = torch.randn(16, 12, generator=generator)
    wanted = x[:, :4].abs().argmax(1)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        loss = F.cross_entropy(model(x).float(), wanted)
    inner.zero_grad()
    loss.backward()
    inner.step()
    if step % EVERY == EVERY - 1:
        for ours, parameter in zip(shared, model.parameters()):
            ours.grad = ours.detach() - parameter.detach()
            dist.all_reduce(ours.grad)
            ours.grad /= dist.get_world_size()
        outer.step()
        with torch.no_grad():
            for ours, parameter in zip(shared, model.parameters()):
                parameter.copy_(ours)
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
