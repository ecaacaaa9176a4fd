# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes: heads of an attention and columns of an MLP are divided by hand, with sums over both."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

WIDTH, HEADS = 32, 4


class Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        part = WIDTH // size
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * part), nn.Linear(part, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 2 * part), nn.Linear(2 * part, WIDTH, bias=False)
        self.heads = HEADS // size

    def forward(self, x):
        h = Copied.apply(self.norm1(x))
        q, k, v = self.qkv(h).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + Added.apply(self.out(h))
        h = Copied.apply(self.norm2(x))
        return x + Added.apply(self.down(F.gelu(self.up(h))))


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embed = nn.Embedding(48, WIDTH)
        self.layers = nn.ModuleList(Layer(size) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 48)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(44)
model = Net(size)
for name, p in model.named_parameters():
    if any(part in name for part in ("qkv", "out.", "up.", "down.")):
        torch.manual_seed(1000 + p.numel() + rank)
        nn.init.normal_(p, std=0.2)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, foreach=False)
generator = torch.Generator().manual_seed(930)
for step in range(3):
    ids = torch.randint(48, (3, 13), generator=generator)
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
