# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Small but real models: two transformers, a CNN, an RNN, a mixture of experts, and what runs data parallel.

Two traps of real models are in them on purpose. The key part of `qkv.bias` has a gradient that is zero but
for rounding (a softmax does not see it), and so has the bias of a convolution in front of a batch norm; an
optimizer that divides by the size of the gradient makes a step of it. None of it changes the loss.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

VOCABULARY = 40
LENGTH = 10


class Attention(nn.Module):
    """Causal self-attention, written out."""

    mask: torch.Tensor

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1))

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale
        weights = F.softmax(scores.masked_fill(self.mask, float("-inf")), dim=-1)
        return torch.matmul(self.drop(weights), v)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(self.attend(q, k, v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.act(self.up(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = FeedForward(width, 2 * width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.drop(self.mlp(self.norm2(x)))


class Transformer(nn.Module):
    """A language model that takes its labels and returns its loss."""

    def __init__(self, dropout: float = 0.0, recompute: bool = False) -> None:
        super().__init__()
        width = 24
        self.recompute = recompute
        self.embed = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.randn(LENGTH, width) * 0.1)
        self.blocks = nn.ModuleList(Block(width, 3, dropout) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def run_block(self, block: nn.Module, x: torch.Tensor) -> torch.Tensor:
        if not self.recompute:
            return block(x)
        return checkpoint(block, x, use_reentrant=False)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.position
        for block in self.blocks:
            x = self.run_block(block, x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Cnn(nn.Module):
    """Residual, with batch norms. Returns logits; the loss is computed by the training."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2)
        self.conv = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.pool(F.relu(self.bn1(self.stem(images))))
        x = F.relu(self.bn2(self.conv(x)) + x)
        return self.head(torch.mean(x, (2, 3)))


class Rnn(nn.Module):
    """An LSTM, and a GRU cell that is stepped by hand. Returns logits for each position."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 12)
        self.lstm = nn.LSTM(12, 16, batch_first=True)
        self.cell = nn.GRUCell(16, 16)
        self.head = nn.Linear(16, VOCABULARY)

    def initial(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.full((1, ids.shape[0], 16), 0.0, dtype=self.cell.weight_hh.dtype)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        state = self.initial(ids)
        x, _ = self.lstm(self.embed(ids), (state, torch.zeros_like(state)))
        hidden = state[0]
        outputs = []
        for position in range(ids.shape[1]):
            hidden = self.cell(x[:, position], hidden)
            outputs.append(hidden)
        return self.head(torch.stack(outputs, 1))


class Experts(nn.Module):
    """Each token goes to its `top_k` experts, of which each takes at most `capacity` times its even share."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.top_k = 2
        self.capacity = 1.25
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(FeedForward(width, 2 * width) for _ in range(experts))

    def combine(self, weights: torch.Tensor) -> torch.Tensor:
        return weights / weights.sum(-1, keepdim=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = x.flatten(0, 1)
        share = F.softmax(self.router(tokens), dim=-1)
        values, chosen = torch.topk(share, self.top_k, dim=-1)
        weights = self.combine(values)
        room = int(self.capacity * len(tokens) * self.top_k / len(self.experts))
        result = torch.zeros_like(tokens)
        for index, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == index)
            token, slot = token[:room], slot[:room]
            part = expert(tokens[token]) * weights[token, slot].unsqueeze(-1)
            if part.dtype != result.dtype:  # under autocast
                part = part.to(result.dtype)
            result = result.index_add(0, token, part)
        load = F.one_hot(chosen, len(self.experts)).float().mean((0, 1))
        balance = torch.sum(load * share.mean(0)) * len(self.experts)
        return result.view_as(x), balance


class MixtureOfExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = 16
        self.balance = 0.05
        self.embed = nn.Embedding(VOCABULARY, width)
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, 2, 0.0)
        self.norm2 = nn.LayerNorm(width)
        self.moe = Experts(width, 4)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        x = x + self.attn(self.norm1(x))
        y, balance = self.moe(self.norm2(x))
        logits = self.head(x + y)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()) + self.balance * balance


class Perceptron(nn.Module):
    """What the two ranks train."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(12, 24)
        self.norm = nn.LayerNorm(24)
        self.outer = nn.Linear(24, 6)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.outer(F.gelu(self.norm(self.inner(features))))
