# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The models of pair_scripts.py, and how they are trained."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

WIDTH = 32


class Block(nn.Module):
    """A residual block, whose parts can be replaced: `change(block, name, x)` is asked at each of them."""

    def __init__(self, width: int, change: Change | None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(2 * width, width)
        self._change = [change]  # in a list: no setting of the module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        change = self._change[0]
        if change is not None:
            return change(self, x)
        return x + self.down(self.act(self.up(self.norm(x))))


Change = Callable[[Block, torch.Tensor], torch.Tensor]


class Net(nn.Module):
    def __init__(
        self, change: Change | None = None, blocks: int = 3, head: Callable[..., Any] | None = None
    ) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, change if i == 1 else None) for i in range(blocks))
        self.last = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 8)
        self._logits = [head or (lambda logits: logits)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self._logits[0](self.head(self.last(x)))


class Attention(nn.Module):
    """With a bias of the keys, whose gradient is zero but for rounding."""

    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self._attend = [attend]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part(x).unflatten(-1, (4, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        return self.out(self._attend[0](q, k, v).transpose(1, 2).flatten(2))


class Attending(nn.Module):
    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = Attention(attend)
        self.mlp = Block(WIDTH, None)
        self.head = nn.Linear(WIDTH, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        x = self.mlp(x + self.attention(self.norm(x)))
        return self.head(x)


@dataclass
class Training:
    """`contexts` are entered around it; `grown`: what the optimizer gets is changed by this."""

    model: nn.Module
    dtype: torch.dtype = torch.float32
    shape: tuple[int, ...] = (16, WIDTH)
    scale: float = 1.0
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None
    optimizer: Callable[[Any], torch.optim.Optimizer] = lambda p: torch.optim.AdamW(p, lr=1e-3)
    before_step: Callable[[nn.Module], object] = lambda model: None
    contexts: tuple[contextlib.AbstractContextManager[Any], ...] = ()
    steps: int = 1
    micro_steps: int = 1

    def run(self, start: Callable[[nn.Module], None], stop: Callable[[], None]) -> None:
        self.model.to(self.dtype)
        optimizer = self.optimizer(self.model.parameters())
        with contextlib.ExitStack() as stack:
            for context in self.contexts:
                stack.enter_context(context)
            for step in range(self.steps):
                x, labels = self._batch(step)
                start(self.model)
                optimizer.zero_grad()
                for part, goal in zip(x.chunk(self.micro_steps), labels.chunk(self.micro_steps)):
                    logits = self.model(part)
                    loss = (self.loss or cross_entropy)(logits, goal)
                    (loss / self.micro_steps if self.micro_steps > 1 else loss).backward()
                self.before_step(self.model)
                optimizer.step()
                stop()

    def _batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(100 + step)
        x = torch.randn(self.shape, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, 8, self.shape[:-1], generator=generator)
        return (x * self.scale).to(self.dtype), labels


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(7)
    return build()


def with_part(part: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """As all blocks, but `change` is done to what comes out of a part ("": to what goes in)."""

    def forward(block: Block, x: torch.Tensor) -> torch.Tensor:
        y = change(x) if part == "" else x
        shortcut = y
        for name in ("norm", "up", "act", "down"):
            y = getattr(block, name)(y)
            y = change(y) if part == name else y
        return shortcut + y

    return forward
