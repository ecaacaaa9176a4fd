# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Attention without a softmax: features of keys are added up along a text; learnt by Adan, by hand."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

DTYPE = torch.float32
VOCAB, WIDTH, HEADS, LENGTH = 50, 32, 4, 20


class LinearAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2).float() for part in self.qkv(x).chunk(3, dim=-1)
        )
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kept = (k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(dim=2)
        size = (q * k.cumsum(dim=2)).sum(-1, keepdim=True) + 1e-6
        y = (q.unsqueeze(-2) @ kept).squeeze(-2) / size
        return self.out(y.transpose(1, 2).flatten(2).to(x.dtype))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.other = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = LinearAttention()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.down(F.relu(self.up(self.other(x))).square())


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, ids):
        h = self.blocks(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        return self.norm(h) @ self.words.weight.T / WIDTH**0.5


class Adan(torch.optim.Optimizer):
    """Nesterov by differences of gradients; weights decay by a proximal step."""

    def __init__(self, params, lr=2e-3, betas=(0.98, 0.92, 0.99), eps=1e-8, decay=0.02):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "decay": decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.update(p, group, self.state[p])

    def update(self, p, group, state):
        if not state:
            state.update({name: torch.zeros_like(p) for name in ("mean", "moved", "square")})
            state["step"], state["before"] = 0, p.grad.clone()
        state["step"] += 1
        a, b, c = group["betas"]
        change = p.grad - state["before"]
        looked_ahead = p.grad + b * change
        state["mean"].mul_(a).add_(p.grad, alpha=1 - a)
        state["moved"].mul_(b).add_(change, alpha=1 - b)
        state["square"].mul_(c).addcmul_(looked_ahead, looked_ahead, value=1 - c)
        size = (state["square"] / (1 - c ** state["step"])).sqrt().add_(group["eps"])
        way = state["mean"] / (1 - a ** state["step"]) + b * state["moved"] / (1 - b ** state["step"])
        p.addcdiv_(way, size, value=-group["lr"]).div_(1 + group["lr"] * group["decay"])
        state["before"].copy_(p.grad)


torch.set_num_threads(1)
torch.manual_seed(709)
model = Reader().to(DTYPE)
# model built
optimizer = Adan(model.parameters())
generator = torch.Generator().manual_seed(79)
for step in range(4):
    ids = torch.randint(VOCAB, (6, LENGTH + 1), generator=generator)
    ids[:, 6::3] = ids[:, 3:-3:3]
    logits = model(ids[:, :-1]).float()
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
