# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A small training with a planted fault. FAULTS: what a hunt has to change to mend it. "fewer" makes a step
less, which nothing mends. Behind "noisy-" the
gradient of its loss is off by some roundings, other ones in each run.
"""

from __future__ import annotations

import sys
import time
from typing import Any

FAULTS = {
    "scale": ("1.scale",),
    "lr": ("optimizer.groups.0.lr",),
    "late": ("2.norm.eps",),
    "two": ("1.scale", "optimizer.groups.0.lr"),
    "data": ("feed.inputs",),
    "weight": ("feed.weights",),
    "random": ("feed.random",),
    "gradient": ("feed.loss",),
    "compiled": ("compile.backend",),
}


def main(kind: str) -> None:
    import torch

    kind, is_noisy = kind.removeprefix("noisy-"), kind.startswith("noisy-")

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(16)
            self.linear = torch.nn.Linear(16, 16)
            self.drop = torch.nn.Dropout(0.1)
            self.scale = 1.05 if kind in ("scale", "two") and not blocks else 1.0
            blocks.append(self)

        def forward(self, x: Any) -> Any:
            return x + self.drop(torch.tanh(self.linear(self.norm(x)) * self.scale))

    blocks: list[Block] = []
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), Block(), Block(), torch.nn.Linear(16, 4))
    if kind == "compiled":
        model = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3 if kind in ("lr", "two") else 1e-3)
    for step in range(7 if kind == "fewer" else 8):
        x = torch.randn(6, 8)
        if kind == "data" and step == 2:
            x[0, 0] += 1
        if kind == "weight" and step == 1:
            with torch.no_grad():
                blocks[0].linear.weight[0, 0] += 0.1
        if kind == "random" and step == 2:
            torch.rand(1)
        if kind == "late" and step == 5:
            blocks[1].norm.eps = 1e-2
        loss = (model(x) - 1).pow(2).mean()
        if kind == "gradient":
            loss.register_hook(lambda grad: grad * 1.01)
        if is_noisy:
            loss.register_hook(lambda grad: grad * (1 + 1e-7 * (1 + time.time_ns() % 8)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
