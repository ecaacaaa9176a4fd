# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The training whose records by mindstudio-probe lie in tests/data/monitor, and reading records."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

DATA = Path(__file__).resolve().parents[1] / "data" / "monitor"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x: Any) -> Any:
        return self.norm(torch.relu(self.fc(x)) + x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(4, 6)
        self.layers = nn.ModuleList([Block(), Block()])
        self.fc2 = nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        x = self.fc1(x)
        for block in self.layers:
            x = block(x)
        return self.fc2(x)


def make_training() -> tuple[Any, Any]:
    torch.manual_seed(0)
    net = Net()
    return net, torch.optim.Adam(net.parameters(), lr=1e-2)


def train(
    net: Any,
    optimizer: Any,
    *,
    steps: int = 4,
    spoil: Callable[[int, Any], Any] = lambda step, x: x,
    before: Callable[[int], None] = lambda step: None,
    after: Callable[[int], None] = lambda step: None,
) -> list[float]:
    """Two micro batches a step; returns the losses."""
    losses = []
    for step in range(steps):
        for _ in range(2):
            x = spoil(step, torch.randn(3, 4))
            loss = net(x).square().sum() / 2
            loss.backward()
            losses.append(loss.item())
        before(step)
        optimizer.step()
        after(step)
        optimizer.zero_grad()
    return losses


def alert_spoil(step: int, x: Any) -> Any:
    """Of case `alert`."""
    if step == 2:
        x = x * 1e12
    if step == 3:
        x[0, 0] = float("nan")
    return x


def read_rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))
