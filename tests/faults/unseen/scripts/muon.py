# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A decoder whose attention sees a window, learnt by Muon, and by AdamW what is no matrix."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32
WIDTH, HEADS, WINDOW, VOCAB = 32, 4, 4, 60


def rotated(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 96, bias=False), nn.Linear(96, WIDTH, bias=False)
        self.gains = nn.Parameter(torch.tensor([1.0, 0.8]))

    def forward(self, x, cos, sin, mask):
        q, k, v = self.qkv(F.rms_norm(x, (WIDTH,))).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q, k = F.rms_norm(q, (q.shape[-1],)), F.rms_norm(k, (k.shape[-1],))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -1e9)
        y = scores.softmax(-1) @ v
        x = x + self.gains[0] * self.out(y.transpose(1, 2).flatten(2))
        return x + self.gains[1] * self.down(F.relu(self.up(F.rms_norm(x, (WIDTH,)))).square())


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, ids):
        at = torch.arange(ids.shape[1])
        angle = at[:, None] * 100.0 ** -torch.linspace(0, 1, WIDTH // HEADS // 2)
        x = F.rms_norm(self.embed(ids), (WIDTH,))
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        apart = at[:, None] - at
        mask = (apart >= 0) & (apart < WINDOW)
        for block in self.blocks:
            x = block(x, cos, sin, mask)
        return 15 * torch.tanh(self.head(F.rms_norm(x, (WIDTH,))).float() / 15)


def orthogonal(g, rounds=5):
    """Newton and Schulz: the nearest matrix all of whose singular values are about 1."""
    x = g / (g.norm() + 1e-7)
    if g.shape[0] > g.shape[1]:
        x = x.T
    for _ in range(rounds):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                kept = self.state[p].setdefault("momentum", torch.zeros_like(p))
                kept.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(kept, group["momentum"]).float())
                scale = max(1, p.shape[0] / p.shape[1]) ** 0.5
                p.add_(update.to(p.dtype), alpha=-group["lr"] * scale)


torch.set_num_threads(1)
torch.manual_seed(515)
model = Decoder().to(DTYPE)
# model built
matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
others = [p for name, p in model.named_parameters() if p.ndim != 2 or not name.startswith("blocks")]
muon = Muon(matrices)
adam = torch.optim.AdamW(others, lr=5e-3, betas=(0.8, 0.95), weight_decay=0.0, foreach=False)
generator = torch.Generator().manual_seed(15)
for step in range(3):
    ids = torch.randint(VOCAB, (4, 13), generator=generator)
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    model.zero_grad()
    loss.backward()
    muon.step()
    adam.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
