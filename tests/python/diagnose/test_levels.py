# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs that were recorded at different levels: what one level does not record is no missing call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msprobe.diagnose.answer import Answer
from msprobe.diagnose.command import diagnose_runs
from msprobe.files.left_out import lines

SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))

class Kernel(TorchDispatchMode):
    calls = 0
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.gelu.default:
            self.calls += 1
            if self.calls == 2 and sys.argv[1:]: result = result * 1.01
        return result

model = nn.Sequential(*(Block() for _ in range(3)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
with Kernel():
    loss = model(torch.randn(8, 16)).pow(2).mean()
loss.backward()
optimizer.step()
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("levels")
    (folder / "train.py").write_text(SCRIPT)
    for name, level, *words in (("L0", "L0"), ("mix", "mix"), ("fault", "mix", "fault")):
        command = [sys.executable, "-m", "msprobe", "run", "-o", name, "--level", level, "train.py", *words]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder


def diagnosed(reference: Path, target: Path, tmp_path: Path) -> Answer:
    return diagnose_runs(reference, target, tmp_path / "out", graph=False, force=True, shows_progress=False)


@pytest.mark.parametrize("names", [("L0", "mix"), ("mix", "L0")])
def test_other_levels_are_told_and_no_difference(runs: Path, tmp_path: Path, names: tuple[str, str]) -> None:
    answer = diagnosed(runs / names[0], runs / names[1], tmp_path)
    assert answer.status == "equal"
    said = f"calls of functions (the reference has level {names[0]}, the target {names[1]})"
    assert f"dump: {said}" in lines(answer.not_compared)


@pytest.mark.parametrize("names", [("L0", "fault"), ("fault", "L0")])
def test_a_fault_is_named_by_the_first_module_that_shows_it(
    runs: Path, tmp_path: Path, names: tuple[str, str]
) -> None:
    answer = diagnosed(runs / names[0], runs / names[1], tmp_path)
    assert answer.cause is not None
    assert answer.cause.name == "argument Module.1.down.Linear.forward.0.input.0"
