# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Training scripts that know nothing of msprobe, and running them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[3]

BEGINNING = """
import sys, os
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
criterion = nn.CrossEntropyLoss()

def train(steps, model=model):
    for step in range(steps):
        x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            model(x)
        model.train()
        print(step, loss.item().hex())
"""

PLAIN = (
    BEGINNING
    + """
train(5)
print(sum(p.double().abs().sum() for p in model.parameters()).item().hex())
print(sys.argv, __file__, __name__, sys.path[0], __spec__ and __spec__.name)
"""
)


def python(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def recorded(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """msprobe run -o out ARGUMENTS"""
    return python("-m", "msprobe", "run", "-o", "out", *arguments, cwd=cwd, **environment)


def run_file(folder: Path, rank: int = 0) -> dict[str, Any]:
    return json.loads((folder / f"run.rank{rank}.json").read_text())
