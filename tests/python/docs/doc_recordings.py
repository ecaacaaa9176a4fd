# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records in one process what pages of the documentation take for granted, below the current folder:

dump/step3/rank0     the event log of a step whose JSON was deferred
tensors/step0/rank0  a dump of task tensor
nan/step0/rank0      a dump in which a logarithm of negative values gave NaN
a.bin, b.bin         two checkpoints
rl_a, rl_b           key data of reinforcement learning; a token of step 1 differs
"""

from __future__ import annotations

import json
import os

import torch
from msprobe import PrecisionDebugger
from msprobe.core import SingleSave
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.log(self.first(x).abs() - 0.5))


def record(folder: str, step: int, task: str = "statistics", **section: str) -> None:
    settings = {"task": task, "level": "mix", "dump_path": folder, task: section}
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


def save_key_data(folder: str, *, other_token: bool = False) -> None:
    torch.manual_seed(0)
    SingleSave._instance = None
    SingleSave(folder)
    for step in range(3):
        tokens = torch.randint(0, 100, (8, 10))
        log_probs = -3 * torch.rand(8, 10)
        training = log_probs + 0.01 * torch.randn(8, 10)
        if other_token and step == 1:
            tokens[2, 5] = 17
        mask = torch.ones_like(tokens)
        mask[:, 8:] = 0
        SingleSave.save({"responses": tokens, "response_mask": mask, "rollout_log_probs": log_probs})
        SingleSave.save({"old_log_probs": training})
        SingleSave.step()
    SingleSave.flush()


save_key_data("rl_a")
save_key_data("rl_b", other_token=True)
torch.manual_seed(0)
record("dump", 3, json="deferred")
record("nan", 0)
record("tensors", 0, "tensor")
PrecisionDebugger._reset()
model = Model()
torch.save(model.state_dict(), "a.bin")
with torch.no_grad():
    model.first.weight.add_(0.01)
torch.save(model.state_dict(), "b.bin")
