# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A decoder on a ball: words, states and rows have the length one; slow gradients are made strong."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
MODULUS, WIDE, HEADS, LAYERS, BATCH, STEPS, SLOW, STRONG = 13, 32, 4, 2, 24, 4, 0.8, 1.5
WORDS, BEGIN, SHARE = MODULUS + 2, 32**-0.5, 0.3


def one(x, dim=-1):
    """Of the length one."""
    return x / x.norm(dim=dim, keepdim=True)


class Scale(nn.Module):
    """Numbers that are learnt as if they were of the size of weights."""

    def __init__(self, many, first):
        super().__init__()
        self.value, self.first = nn.Parameter(torch.full((many,), BEGIN)), first

    def forward(self):
        return self.value * (self.first / BEGIN)


class Block(nn.Module):
    """States go some way along the ball to where attention, then the MLP, point."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDE, 3 * WIDE, bias=False), nn.Linear(WIDE, WIDE, bias=False)
        self.up, self.down = nn.Linear(WIDE, 4 * WIDE, bias=False), nn.Linear(2 * WIDE, WIDE, bias=False)
        self.sharp, self.wide = Scale(WIDE, 1.0), Scale(4 * WIDE, 1.0)
        self.far, self.farther = Scale(WIDE, SHARE), Scale(WIDE, SHARE)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=2))
        sharp = self.sharp().view(HEADS, 1, -1)
        q, k = one(q.float()) * sharp, one(k.float()) * sharp
        size = (WIDE / HEADS) ** 0.5
        seen = F.scaled_dot_product_attention(q, k, v.float(), is_causal=True, scale=size)
        seen = self.out(seen.transpose(1, 2).flatten(2)).float()
        x = one(x + self.far() * (one(seen) - x))
        up, gate = (self.up(x).float() * self.wide() * WIDE**0.5).chunk(2, dim=2)
        made = self.down(up * F.silu(gate)).float()
        return one(x + self.farther() * (one(made) - x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.blocks = nn.Embedding(WORDS, WIDE), nn.ModuleList(Block() for _ in range(LAYERS))
        self.says, self.heat = nn.Linear(WIDE, WORDS, bias=False), Scale(WORDS, 4.0)
        self.rounded()

    @torch.no_grad()
    def rounded(self):
        """Back to the ball: what comes in for most, what goes out for those that end a block."""
        self.words.weight.copy_(one(self.words.weight))
        self.says.weight.copy_(one(self.says.weight))
        for block in self.blocks:
            for part in (block.qkv, block.up):
                part.weight.copy_(one(part.weight))
            for part in (block.out, block.down):
                part.weight.copy_(one(part.weight, dim=0))

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.says(x).float() * self.heat()


@torch.no_grad()
def filtered(params, slow):
    """What gradients have been on the whole is added to them, larger."""
    for p in params:
        if p not in slow:
            slow[p] = p.grad.clone()
        slow[p].mul_(SLOW).add_(p.grad, alpha=1 - SLOW)
        p.grad.add_(slow[p], alpha=STRONG)


def sums(generator):
    """Two numbers, and their sum on a clock."""
    a, b = torch.randint(0, MODULUS, (2, BATCH), generator=generator)
    plus, equals = torch.full_like(a, MODULUS), torch.full_like(a, MODULUS + 1)
    return torch.stack([a, plus, b, equals], dim=1), (a + b) % MODULUS


torch.set_num_threads(1)
torch.manual_seed(1514)
model = Model()
# model built
params, slow = list(model.parameters()), {}
optimizer = torch.optim.Adam(params, lr=6e-3, betas=(0.9, 0.95), foreach=False)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=STEPS + 2, power=1.0)
generator = torch.Generator().manual_seed(15114)
for step in range(STEPS):
    ids, wanted = sums(generator)
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids)[:, -1]
    loss = F.cross_entropy(logits, wanted)
    optimizer.zero_grad()
    loss.backward()
    filtered(params, slow)
    optimizer.step()
    model.rounded()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
