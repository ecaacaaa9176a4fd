# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Transformer-XL: segments of a text remember the one before; attention by relative places."""

import torch
import torch.nn as nn
import torch.nn.functional as F  # noqa: N812

precision = torch.float32
MEMORY = 8


class RelativeAttention(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads, self.d_head = heads, d // heads
        self.q = nn.Linear(d, d, bias=False)
        self.kv = nn.Linear(d, 2 * d, bias=False)
        self.r = nn.Linear(d, d, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.u = nn.Parameter(torch.randn(heads, self.d_head) * 0.1)
        self.v = nn.Parameter(torch.randn(heads, self.d_head) * 0.1)

    @staticmethod
    def shift(x):
        b, n, q, k = x.shape
        x = torch.cat([x.new_zeros(b, n, q, 1), x], dim=-1).view(b, n, k + 1, q)
        return x[:, :, 1:].view(b, n, q, k)

    def forward(self, x, mem, pos):
        c = torch.cat([mem, x], dim=1) if mem is not None else x
        b, qlen, klen = x.shape[0], x.shape[1], c.shape[1]
        q = self.q(x).view(b, qlen, self.heads, self.d_head)
        k, v = self.kv(c).view(b, klen, 2, self.heads, self.d_head).unbind(2)
        r = self.r(pos[-klen:]).view(klen, self.heads, self.d_head)
        content = torch.einsum("bind,bjnd->bnij", q + self.u, k)
        place = torch.einsum("bind,jnd->bnij", q + self.v, r)
        scores = (content + self.shift(place)) / self.d_head**0.5
        mask = torch.ones(qlen, klen, dtype=torch.bool).triu(1 + klen - qlen)
        scores = scores.masked_fill(mask, -1e9)
        out = torch.einsum("bnij,bjnd->bind", scores.softmax(-1), v)
        return self.o(out.reshape(b, qlen, -1))


class Layer(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.attn = RelativeAttention(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.ln1 = nn.LayerNorm(d)
        self.ln2 = nn.LayerNorm(d)

    def forward(self, x, mem, pos):
        x = self.ln1(x + self.attn(x, mem, pos))
        return self.ln2(x + self.ff(x))


class TransformerXL(nn.Module):
    def __init__(self, vocab=40, d=32, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        nn.init.normal_(self.emb.weight, std=d**-0.5)
        self.layers = nn.ModuleList(Layer(d) for _ in range(layers))
        self.bias = nn.Parameter(torch.zeros(vocab))
        place = torch.arange(2 * MEMORY - 1, -1, -1.0)
        freq = 1 / 10000 ** (torch.arange(0, d, 2) / d)
        angle = place[:, None] * freq
        self.register_buffer("pos", torch.cat([angle.sin(), angle.cos()], -1), persistent=False)

    def forward(self, ids, mems):
        h = self.emb(ids) * self.emb.embedding_dim**0.5
        new = []
        for layer, mem in zip(self.layers, mems):
            new.append(h.detach()[:, -MEMORY:])
            h = layer(h, mem, self.pos.to(h.dtype))
        return F.linear(h, self.emb.weight, self.bias), new


torch.set_num_threads(1)
torch.manual_seed(410)
model = TransformerXL().to(precision)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, foreach=False)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=10)
text = torch.randint(40, (6, 64), generator=torch.Generator().manual_seed(3))
text[:, 1::2] = (text[:, ::2] * 3 + 1) % 40
mems = [None] * len(model.layers)
for step in range(4):
    piece = text[:, 8 * step : 8 * step + 9]
    logits, mems = model(piece[:, :-1], mems)
    loss = F.cross_entropy(logits.float().flatten(0, 1), piece[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    opt.step()
    sched.step()
    print(f"step {step} loss {loss.item()!r}")
print("weights", sum(p.detach().double().abs().sum().item() for p in model.parameters()))
