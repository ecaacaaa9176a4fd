# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Recording through Python, for a torch that the native recorder was not built for: the same files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msprobe.files.regular_file import read_text

SCRIPT = """
import random, sys
import torch
from msprobe.pytorch import PrecisionDebugger
from torch import nn

random.seed(0)
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc, self.drop = nn.LayerNorm(8), nn.Linear(8, 8), nn.Dropout(0.1)

    def forward(self, x, scale=None):
        h = self.drop(nn.functional.gelu(self.fc(self.norm(x))))
        return x + h * (1.0 if scale is None else scale)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.a, self.b, self.head = nn.Embedding(10, 8), Block(), Block(), nn.Linear(8, 10)
        self.identity = nn.Identity()

    def forward(self, ids):
        h = self.b(self.a(self.embedding(ids)), scale=2.0)
        h = torch.cat([h, h[:, :1]], dim=1).to(dtype=torch.float32)
        return self.head(self.identity(h)[:, :-1])

net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
debugger = PrecisionDebugger(sys.argv[1])
ids = torch.arange(8).view(2, 4)
for _ in range(2):
    debugger.start(net)
    loss = nn.functional.cross_entropy(net(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    debugger.stop()
    debugger.step()
    print(repr(loss.item()))
"""
KINDS = ["inputs", "parameters", "gradients", "optimizer", "modules"]


def recorded(folder: Path, level: str, recorder: str, json_files: str = "at_stop") -> tuple[Path, str, str]:
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    section = {"diagnosis": KINDS, "json": json_files}
    config = {"task": "statistics", "dump_path": "dump", "rank": [], "step": [], "level": level}
    (folder / "config.json").write_text(json.dumps({**config, "statistics": section}))
    done = subprocess.run(
        [sys.executable, "train.py", "config.json"],
        cwd=folder,
        env={**os.environ, "MSPROBE_RECORDER": recorder},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return folder / "dump", done.stdout, done.stderr


def content(dump: Path, step: int, name: str, folder: Path) -> Any:
    """Places of the script are none of the dump."""
    return json.loads(read_text(dump / f"step{step}/rank/{name}").replace(str(folder), ""))


@pytest.mark.parametrize(("level", "json_files"), [("L1", "at_stop"), ("mix", "packed")])
def test_the_files_are_those_of_the_native_recorder(tmp_path: Path, level: str, json_files: str) -> None:
    native, losses, _ = recorded(tmp_path / "native", level, "")
    python, again, told = recorded(tmp_path / "python", level, "python", json_files)
    assert again == losses  # to the last bit
    assert "it records through Python" in told
    for step in (0, 1):
        names = {path.name for path in (python / f"step{step}/rank").iterdir()}
        assert (names == {"step.zip"}) == (json_files == "packed")
        for name in ("dump.json", "construct.json", "stack.json", "diagnosis.json"):
            found = content(python, step, name, tmp_path / "python")
            expected = content(native, step, name, tmp_path / "native")
            if name == "dump.json":
                assert list(found["data"]) == list(expected["data"])
            assert found == expected, name
