# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records in one process what pages of the documentation take for granted, below the current folder:

dump/step3/rank0     the event log of a step whose JSON was deferred
nan/step0/rank0      a dump in which a logarithm of negative values gave NaN
a.bin, b.bin         two checkpoints
"""

from __future__ import annotations

import json
import os

import torch
from msprobe import PrecisionDebugger
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.log(self.first(x).abs() - 0.5))


def record(folder: str, step: int, **section: str) -> None:
    settings = {"task": "statistics", "level": "mix", "dump_path": folder, "statistics": section}
    with open(f"{folder}.json", "w", encoding="utf-8") as file:
        json.dump(settings, file)
    PrecisionDebugger._reset()
    debugger = PrecisionDebugger(f"{folder}.json")
    debugger.set_init_step(step)
    model = Model()
    debugger.start(model)
    model(torch.randn(4, 8)).sum().backward()
    debugger.stop()
    debugger.step()
    os.rename(f"{folder}/step{step}/rank", f"{folder}/step{step}/rank0")


torch.manual_seed(0)
record("dump", 3, json="deferred")
record("nan", 0)
PrecisionDebugger._reset()
model = Model()
torch.save(model.state_dict(), "a.bin")
with torch.no_grad():
    model.first.weight.add_(0.01)
torch.save(model.state_dict(), "b.bin")
