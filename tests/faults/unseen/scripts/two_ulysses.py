# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two processes, each with half of every text: for attention they change places for heads, and back."""

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn

AUTOCAST = False
WIDTH, HEADS, LENGTH, VOCAB = 32, 4, 16, 50


def exchanged(x, split, join):
    """One dimension is divided among the ranks, of another all have a part and get the whole."""
    sent = torch.stack(x.chunk(dist.get_world_size(), split)).contiguous()
    came = torch.empty_like(sent)
    dist.all_to_all_single(came, sent)
    return torch.cat(came.unbind(), join)


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, split, join):
        ctx.dims = split, join
        return exchanged(x, split, join)

    @staticmethod
    def backward(ctx, grad):
        split, join = ctx.dims
        return exchanged(grad, join, split), None, None


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.slopes = nn.Parameter(2.0 ** -torch.arange(1, HEADS + 1))
        self.up, self.down = nn.Linear(WIDTH, 128, bias=False), nn.Linear(64, WIDTH, bias=False)

    def forward(self, x):
        """Scores fall with distance, by a slope of each head."""
        q, k, v = (part.unflatten(-1, (HEADS, -1)) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        q, k, v = (Exchange.apply(part, 2, 1).transpose(1, 2) for part in (q, k, v))
        at = torch.arange(q.shape[2])
        apart = at[:, None] - at
        falling = -self.slopes.chunk(dist.get_world_size())[dist.get_rank()][:, None, None] * apart
        bias = falling.masked_fill(apart < 0, -1e9)
        scores = (q @ k.mT).float() * q.shape[-1] ** -0.5 + bias
        y = (scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2)
        x = x + self.out(Exchange.apply(y, 1, 2).flatten(2))
        gate, value = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * value)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH, padding_idx=0)
        self.layers = nn.Sequential(Layer(), Layer())
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids):
        return self.head(self.norm(self.layers(self.embed(ids))))


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(617)
model = Decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), foreach=False)
generator = torch.Generator().manual_seed(77)
for step in range(3):
    text = torch.randint(1, VOCAB, (4, LENGTH + 1), generator=generator)
    text = text.masked_fill(torch.arange(LENGTH + 1) >= torch.tensor([17, 9, 12, 17])[:, None], 0)
    ids, labels = text[:, :-1].chunk(size, 1)[rank], text[:, 1:].chunk(size, 1)[rank]
    count = (labels != 0).sum()
    with torch.autocast("cpu", torch.bfloat16, enabled=AUTOCAST):
        logits = model(ids).float()
    dist.all_reduce(count)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum") / count
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"rank {rank} step {step} loss {loss.item()!r}\n", end="", flush=True)
total = sum(p.detach().double().abs().sum().item() for p in model.parameters())
print(f"rank {rank} weights {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
