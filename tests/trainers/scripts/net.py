# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A small transformer of torch's own layers, for trainers that bring no model."""

from __future__ import annotations

import row
import torch
from torch import nn

VOCABULARY = 64


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1)]
        if row.other_kernel():
            query, key, value = heads
            scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            seen = scores.masked_fill(mask, float("-inf")).softmax(-1) @ value
        else:
            seen = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    def __init__(self, width: int = 128, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def made(**sizes: int) -> Net:
    torch.manual_seed(0)
    net = Net(**sizes)
    row.plant(net)
    return net


def batches(count: int, size: int = 8, length: int = 32, rank: int = 0) -> list[torch.Tensor]:
    source = torch.Generator().manual_seed(row.chosen("data_seed", 5) + rank)
    return [torch.randint(0, VOCABULARY, (size, length + 1), generator=source) for _ in range(count)]


def loss_of(net: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    logits = net(tokens[:, :-1])
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), tokens[:, 1:].flatten(), label_smoothing=row.chosen("label_smoothing", 0.0)
    )
