# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One of each page that msprobe writes, of runs that really take place: for the pictures of the documentation
and for the test that every page can be read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from many_ranks import multiplied
from msprobe.files.regular_file import read_text

TRAIN = """
import sys
import torch
from torch import nn


class Rotary(nn.Module):
    def forward(self, x):
        half = x.shape[-1] // 2
        place = torch.arange(x.shape[1], dtype=torch.float32)[:, None]
        angle = place / 100 ** (torch.arange(half, dtype=torch.float32) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.rot = nn.LayerNorm(width), Rotary()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        if self is not without_rotary:
            q, k = self.rot(q), self.rot(k)
        scores = q @ k.transpose(-1, -2) / 8
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
        return x + self.out(scores.softmax(-1) @ v)


class Model(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.token = nn.Embedding(10, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(4))
        self.head = nn.Linear(width, 10)

    def forward(self, digits):
        x = self.token(digits)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


without_rotary = None
torch.manual_seed(7)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(24):
    if step == 2 and sys.argv[1:] == ["--library", "2.1"]:
        without_rotary = model.layers[2]
    digits = torch.randint(10, (8, 12))
    loss = nn.functional.cross_entropy(model(digits).flatten(0, 1), digits.sort(1).values.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f}", flush=True)
torch.save(model.state_dict(), f"model{len(sys.argv)}.pt")
"""

RECORDS = """
import json
import torch
from msprobe.core import SingleSave
from msprobe.pytorch import PrecisionDebugger

for name, noise in (("rl_a", 0.0), ("rl_b", 0.02)):
    SingleSave._instance = None
    SingleSave(name)
    for step in range(4):
        torch.manual_seed(step)
        old = -torch.rand(8, 32)
        SingleSave.save({"rewards": torch.rand(8), "old_log_probs": old,
                         "rollout_log_probs": old + noise * torch.randn(8, 32)})
        SingleSave.step()
    SingleSave.flush()

with open("check.json", "w") as file:
    json.dump({"task": "tensor", "dump_path": "tensors", "rank": [], "step": [], "level": "L1",
               "tensor": {"scope": [], "list": [], "data_mode": ["all"]}}, file)
debugger = PrecisionDebugger("check.json")
debugger.start()
x = torch.randn(4, 16)
for _ in range(3):
    x = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x @ torch.randn(16, 16), (16,)))
torch.softmax(x, -1)
debugger.stop()
debugger.step()
"""


def made(folder: Path) -> dict[str, Path]:
    """Name of each page -> its file."""

    def msprobe(*words: str, codes: tuple[int, ...] = (0, 1)) -> None:
        run("-m", "msprobe", *words, codes=codes)

    def run(*words: str, codes: tuple[int, ...] = (0,)) -> None:
        # By its name alone: pages print commands as they were typed.
        python = Path(sys.executable)
        done = subprocess.run(
            [python.name, *words],
            cwd=folder,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode in codes, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"

    (folder / "train.py").write_text(TRAIN.lstrip(), "utf-8")
    (folder / "records.py").write_text(RECORDS.lstrip(), "utf-8")
    msprobe("run", "-o", "run_a", "train.py", "--library", "2.0", codes=(0,))
    msprobe("run", "-o", "run_b", "train.py", "--library", "2.1", codes=(0,))
    (folder / "model_a.pt").write_bytes((folder / "model3.pt").read_bytes())
    run("train.py")
    msprobe("diagnose", "run_a", "run_b", "-o", "answer")
    _make_many_ranks(folder)
    msprobe("diagnose", "many_a", "many_b", "-o", "many")
    msprobe("ckpt", "model_a.pt", "model1.pt", "-o", "checkpoint.json")
    run("records.py")
    msprobe("rl_compare", "rl_a", "rl_b", "-o", "rl")
    msprobe("check", "tensors", "-o", "check")
    msprobe("run", "-o", "run_p", "--perturb", "--steps", "0-1", "train.py")
    pages = {
        "diagnosis": folder / "answer/index.html",
        "comparison": folder / "answer/dump/report.html",
        "ranks": folder / "many/dump/report.html",
        "graph": folder / "answer/graph.html",
        "config": folder / "answer/config/report.html",
        "gradients": folder / "answer/gradients/report.html",
        "checkpoint": folder / "checkpoint.html",
        "rl": folder / "rl/report.html",
        "check": folder / "check/report.html",
        "perturb": folder / "run_p/perturb/report.html",
    }
    for name, path in pages.items():
        assert path.is_file(), f"there is no page of {name}: {sorted(folder.rglob('*.html'))}"
    return pages


def _make_many_ranks(folder: Path) -> None:
    """Two runs of 40 processes; of the target one has the fault, at step 2."""
    sound, fault = folder / "run_a", folder / "run_b"
    multiplied(folder / "many_a", [sound] * 40)
    sources = [fault if rank == 27 else sound for rank in range(40)]
    multiplied(folder / "many_b", sources, (2, fault))
    layout = {
        "world_size": 40,
        "groups": [[*range(40)], [*range(4)], [*range(0, 20, 4)], [0, 20]],
        "group_names": ["", "mesh_tp", "mesh_dp", "mesh_pp"],
    }
    for name in ("many_a", "many_b"):
        file = folder / name / "dump/step0/rank0/diagnosis.json"
        state = json.loads(read_text(file))
        file.write_text(
            json.dumps({**state, "layout": layout}), "utf-8"
        )  # beside step.zip it stands before it
