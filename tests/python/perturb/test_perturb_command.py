# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe perturb: exit codes, files, what the script sees."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from perturb_support import verdict_of

SCRIPT = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
PLANT = "plant" in sys.argv

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.GELU())
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        y = self.head(self.body(x))
        if PLANT:
            return torch.log(torch.softmax(y, -1) * 1e-30)
        return torch.log_softmax(y, -1)

model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(4):
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
    loss = nn.functional.nll_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())
print(sum(p.double().abs().sum() for p in model.parameters()).item().hex(), torch.rand(1).item().hex())
if "exit" in sys.argv:
    sys.exit(7)
"""


def msprobe(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "msprobe", "run", "-o", "out", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def plain(folder: Path, *arguments: str) -> str:
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "train.py", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_a_healthy_training(tmp_path):
    done = msprobe(tmp_path, "--perturb", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain(tmp_path)
    assert "No fragile call: of " in done.stderr
    verdict = verdict_of(tmp_path / "out")
    assert (verdict["format"], verdict["status"], verdict["fragile"]) == (1, "healthy", [])
    assert verdict["inputs"] == {"mode": "all", "steps": [0, 1, 2]}
    assert (tmp_path / "out" / "losses.rank0.csv").exists()
    assert not (tmp_path / "out" / "dump").exists()


def test_a_planted_fragility_is_named_with_its_line(tmp_path):
    done = msprobe(tmp_path, "--perturb", "calls", "--format", "junit", "train.py", "plant")
    assert done.returncode == 1, done.stderr
    assert done.stdout == plain(tmp_path, "plant")
    folder = tmp_path / "out" / "perturb"
    first = verdict_of(tmp_path / "out")["fragile"][0]
    assert (first["operator"], first["kind"], first["place"]) == ("Torch.log", "near_zero", "train.py:18")
    assert "Torch.log.0.forward" in done.stderr
    assert "train.py:18" in done.stderr
    with (folder / "calls.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["name"] == "Torch.log.0.forward"
    assert len(rows) > 3
    suite = ElementTree.parse(folder / "junit.xml").getroot()
    assert int(suite.attrib["failures"]) >= 1
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Torch.log.0.forward" in page
    assert "<script" not in page


@pytest.mark.parametrize(("words", "code"), [(("plant", "exit"), 7), (("exit",), 7)])
def test_the_exit_code_of_the_script_goes_first(tmp_path, words, code):
    assert msprobe(tmp_path, "--perturb", "calls", "--quiet", "train.py", *words).returncode == code


def test_nothing_to_measure_is_an_error(tmp_path):
    (tmp_path / "empty.py").write_text("import torch\n", encoding="utf-8")
    done = msprobe(tmp_path, "--perturb", "empty.py")
    assert done.returncode == 2
    assert not (tmp_path / "out" / "perturb").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--perturb=noise", "train.py"), "--perturb"),
        (("--perturb", "--monitor", "train.py"), "perturb"),
        (("--perturb",), "expected a script"),
    ],
)
def test_wrong_wishes_are_refused(tmp_path, words, message):
    done = msprobe(tmp_path, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_modes_of_the_free_benchmark(tmp_path):
    done = msprobe(tmp_path, "--perturb", "change_value", "--steps", "1", "train.py")
    assert done.returncode == 1, done.stderr
    assert done.stdout == plain(tmp_path)
    assert "results are inconsistent" in done.stderr
    folder = tmp_path / "out" / "free_benchmark" / "step1" / "rank"
    with (folder / "free_benchmark.csv").open(newline="", encoding="utf-8") as file:
        assert {row["pert_mode"] for row in csv.DictReader(file)} == {"change_value"}
    assert json.loads((folder / "free_benchmark_summary.json").read_text())["checked"] > 3
    assert msprobe(tmp_path, "--force", "--perturb", "no_change", "train.py").returncode == 0
    assert not (tmp_path / "out" / "free_benchmark" / "step0" / "rank" / "free_benchmark.csv").exists()


def test_the_task_of_a_configuration(tmp_path):
    section = {"task": "free_benchmark", "dump_path": "x", "free_benchmark": {"pert_mode": "bit_noise"}}
    (tmp_path / "config.json").write_text(json.dumps(section), encoding="utf-8")
    done = msprobe(tmp_path, "-c", "config.json", "--steps", "0", "train.py")
    assert done.returncode == 0, done.stderr  # that of the script
    assert "calls were made again" in done.stderr
    assert (tmp_path / "out" / "free_benchmark" / "step0").exists()
