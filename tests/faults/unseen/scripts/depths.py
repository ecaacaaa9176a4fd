# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Mixture of depths: every second block sees only the words that a router chooses, the others go past it."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
ATTENTION = "eager"
VOCAB, LONG, KEPT, WIDE, HEADS, FORESIGHT, STEPS = 48, 20, 6, 32, 4, 0.1, 3


def attended(q, k, v):
    """Each looks at itself and at what comes before."""
    if ATTENTION == "sdpa":
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.mT * q.shape[-1] ** -0.5
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, float("-inf")).softmax(dim=-1) @ v


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDE), nn.RMSNorm(WIDE)
        self.qkv, self.out = nn.Linear(WIDE, 3 * WIDE, bias=False), nn.Linear(WIDE, WIDE, bias=False)
        self.up, self.down = nn.Linear(WIDE, 96, bias=False), nn.Linear(48, WIDE, bias=False)

    def forward(self, x):
        """What is to be added to the words."""
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        first = self.out(attended(q, k, v).transpose(1, 2).flatten(2))
        a, b = self.up(self.norm2(x + first)).chunk(2, dim=-1)
        return first + self.down(F.silu(a) * b)


class Routed(nn.Module):
    """Those of the largest weights, in the order of the text; a second router learns to foresee them."""

    def __init__(self):
        super().__init__()
        self.block, self.router, self.foresees = Block(), nn.Linear(WIDE, 1), nn.Linear(WIDE, 1)

    def forward(self, x):
        weights = self.router(x).float().squeeze(-1)
        rows = weights.topk(KEPT, dim=1).indices.sort(dim=1).values
        wide = rows.unsqueeze(-1).expand(-1, -1, WIDE)
        change = self.block(x.gather(1, wide)) * torch.sigmoid(weights.gather(1, rows)).unsqueeze(-1)
        chosen = torch.zeros_like(weights).scatter(1, rows, 1.0)
        foreseen = self.foresees(x.detach()).float().squeeze(-1)
        lost = F.binary_cross_entropy_with_logits(foreseen, chosen)
        return x.scatter_add(1, wide, change.to(x.dtype)), lost


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, WIDE), nn.Embedding(LONG, WIDE)
        self.whole = nn.ModuleList(Block() for _ in range(2))
        self.routed = nn.ModuleList(Routed() for _ in range(2))
        self.norm = nn.RMSNorm(WIDE)

    def forward(self, ids):
        x, total = self.words(ids) + self.places.weight[: ids.shape[1]], 0.0
        for whole, routed in zip(self.whole, self.routed):
            x, lost = routed(x + whole(x))
            total = total + lost
        return F.linear(self.norm(x), self.words.weight).float(), total


torch.set_num_threads(1)
torch.manual_seed(915)
model = Decoder()
nn.init.normal_(model.words.weight, std=0.2)
# model built
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1, foreach=False)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3, (6 - step) / 4))
generator = torch.Generator().manual_seed(105)
for step in range(STEPS):
    ids = torch.randint(VOCAB, (8, LONG), generator=generator)
    ids[:, LONG // 2 :] = (ids[:, : LONG // 2] + 1) % VOCAB
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits, foresight = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) + FORESIGHT * foresight
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
