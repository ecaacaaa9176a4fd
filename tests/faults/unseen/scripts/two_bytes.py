# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes that send gradients as bytes: blocks have a scale each, what was lost is sent next time."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
VOCAB, WIDE, DEEP, LONG, KINDS, BATCH, BLOCK, MOST, STEPS = 40, 16, 32, 12, 4, 12, 64, 127, 4


class Spatial(nn.Module):
    """Words are mixed by a matrix over places; one half of the channels says how much of the other stays."""

    def __init__(self):
        super().__init__()
        self.norm, self.into, self.out = nn.LayerNorm(WIDE), nn.Linear(WIDE, 2 * DEEP), nn.Linear(DEEP, WIDE)
        self.gate, self.mix = nn.LayerNorm(DEEP), nn.Linear(LONG, LONG)
        nn.init.normal_(self.mix.weight, std=0.05)
        nn.init.ones_(self.mix.bias)

    def forward(self, x):
        stays, gate = F.gelu(self.into(self.norm(x)), approximate="tanh").chunk(2, dim=-1)
        gate = self.mix(self.gate(gate).mT).mT
        return x + self.out(stays * gate)


class Sentences(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDE)
        self.blocks = nn.ModuleList(Spatial() for _ in range(3))
        self.out = nn.Linear(WIDE, KINDS)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.out(x.mean(dim=1)).float()


def to_bytes(flat):
    """Each block as whole numbers, and how large one is."""
    blocks = F.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
    scale = blocks.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / MOST
    return torch.round(blocks / scale).to(torch.int8), scale


def from_bytes(numbers, scale, size):
    return (numbers.float() * scale).flatten()[:size]


class Bytes:
    def __init__(self, params):
        self.params = list(params)
        self.lost = torch.zeros(sum(p.numel() for p in self.params))

    @torch.no_grad()
    def reduce(self):
        own = torch.cat([p.grad.flatten() for p in self.params]) + self.lost
        numbers, scale = to_bytes(own)
        self.lost = own - from_bytes(numbers, scale, len(own))
        every = [torch.empty_like(numbers) for _ in range(dist.get_world_size())]
        scales = [torch.empty_like(scale) for _ in range(dist.get_world_size())]
        dist.all_gather(every, numbers)
        dist.all_gather(scales, scale)
        total = sum(from_bytes(*part, len(own)) for part in zip(every, scales))
        mean = total / dist.get_world_size()
        for p, part in zip(self.params, mean.split([p.numel() for p in self.params])):
            p.grad.copy_(part.view_as(p))


def texts(generator):
    """Which of four words comes most."""
    ids = torch.randint(VOCAB, (BATCH, LONG), generator=generator)
    counts = torch.stack([(ids % (KINDS + 3) == kind).sum(1) for kind in range(KINDS)], dim=1)
    return ids, (counts + 0.1 * torch.rand(counts.shape, generator=generator)).argmax(dim=1)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(1018)
model = Sentences()
# model built
sent = Bytes(model.parameters())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3, foreach=False)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.4, total_steps=STEPS + 2, div_factor=4)
generator = torch.Generator().manual_seed(11800 + rank)
for step in range(STEPS):
    ids, kinds = texts(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids)
    loss = F.cross_entropy(logits, kinds)
    optimizer.zero_grad()
    loss.backward()
    sent.reduce()
    optimizer.step()
    schedule.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
