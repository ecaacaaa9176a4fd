# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A small training whose module `m` computes something else, and is called in different ways:
python planted_modules.py FAULT FORM.
"""

from __future__ import annotations

import sys
from typing import Any

FAULTS = ("forward", "backward", "detached", "draws")
FORMS = ("plain", "tuple", "twice", "checkpoint", "reentrant", "inplace", "shared", "recurrent")


def train(fault: str, form: str) -> list[tuple[float, float]]:
    """Of each step its loss and a sum of the weights, exactly."""
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)
            self.norm = nn.BatchNorm1d(16)
            self.drop = nn.Dropout(0.2)
            self.lstm = nn.LSTM(16, 16) if form == "recurrent" else None

        def forward(self, x: Any) -> Any:
            y = torch.tanh(self.linear(x))
            if fault == "forward":
                y = y * 1.05
            if fault == "detached":
                y = y.detach()
            if fault == "draws":
                torch.rand(1)
            if fault == "backward" and y.requires_grad:
                y.register_hook(lambda gradient: gradient * 1.1)
            y = self.drop(self.norm(y))
            if self.lstm is not None:
                y = self.lstm(y)[0]
            return {"y": (y, y.mean()), "n": 3} if form == "tuple" else y

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(8, 16)
            self.m = Part()
            self.other = nn.Linear(16, 16)
            self.act = nn.ReLU(inplace=True)
            self.last = nn.Linear(16, 8)
            if form == "shared":
                self.other.weight = self.m.linear.weight

        def forward(self, x: Any) -> Any:
            h = self.first(x)
            if form == "tuple":
                part = self.m(h)
                h = h + part["y"][0] * part["y"][1]
            elif form in ("checkpoint", "reentrant"):
                h = h + checkpoint(self.m, h, use_reentrant=form == "reentrant")
            else:
                for _ in range(2 if form == "twice" else 1):
                    h = h + self.m(h)
            if form == "inplace":
                self.act(h)
            return self.last(self.other(h))

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Net()
    model: Any = torch.compile(net, backend="eager") if form == "compiled" else net
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    told = []
    for _ in range(3):
        loss = (model(torch.randn(6, 8)) - 1).pow(2).mean() + torch.rand(1).item() * 0
        if fault == "loss":
            loss = loss * 1.1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told.append((loss.item(), sum(one.double().sum().item() for one in net.parameters())))
    return told


if __name__ == "__main__":
    print(*train(*sys.argv[1:]), sep="\n")
