# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training that knows nothing of msprobe, with a layer of each kind; what is passed makes it another
healthy one: other kernels, other ways to compute the same. test_healthy.py runs it.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

WAYS = set(sys.argv[1:])
DTYPE = torch.bfloat16 if "bfloat16" in WAYS else torch.float32


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        if "fused_attention" in WAYS:
            h = F.scaled_dot_product_attention(q, k, v)
        else:
            h = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1) @ v
        return self.out(h.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """Pictures to a sequence of patches, through attention and a recurrent layer, to a class."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.norm, self.groups = nn.BatchNorm2d(16), nn.GroupNorm(4, 32)
        self.blocks = nn.ModuleList(Block(32) for _ in range(2))
        self.recurrent = nn.GRU(32, 24, batch_first=True)
        self.head = nn.Linear(24, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.norm(self.stem(pictures)))
        h = F.silu(self.groups(self.deep(h))).flatten(2).transpose(1, 2)
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False) if "checkpointing" in WAYS else block(h)
        return self.head(self.recurrent(h)[0][:, -1])


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    how: dict[str, Any] = {"fused": True} if "fused" in WAYS else {"foreach": "foreach" in WAYS}
    return torch.optim.AdamW(model.parameters(), lr=1e-3, **how)


def main() -> None:
    torch.set_num_threads(2 if "threads" in WAYS else 1)
    if "no_mkldnn" in WAYS:
        torch._C._set_mkldnn_enabled(False)
    torch.manual_seed(2)
    model = Model().to(DTYPE)
    if "channels_last" in WAYS:
        model = model.to(memory_format=torch.channels_last)
    optimizer = optimizer_of(model)
    generator = torch.Generator().manual_seed(3)
    for step in range(3):
        pictures = torch.randn(8, 3, 16, 16, generator=generator).to(DTYPE)
        wanted = torch.randint(10, (8,), generator=generator)
        if "channels_last" in WAYS:
            pictures = pictures.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(pictures), wanted)
        loss.backward()
        if "clipped_by_parts" in WAYS:
            norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
            nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, norm)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item()!r}")


if __name__ == "__main__":
    main()
