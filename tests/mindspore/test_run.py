# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""`msprobe run` of a script with the real MindSpore."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from msprobe.files.regular_file import read_text

SCRIPT = """
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

ms.set_device("CPU")
ms.set_seed(1)
net = nn.SequentialCell(nn.Dense(4, 6), nn.LayerNorm((6,)), nn.Dense(6, 2))
optimizer = nn.Adam(net.trainable_params(), learning_rate=0.01)
{step}
for number in range(4):
    x = Tensor(np.random.RandomState(number).randn(3, 4).astype(np.float32))
    print(repr(float(step(x).asnumpy())))
"""
FUNCTION = """
gradients = ms.value_and_grad(lambda x: (net(x) ** 2).mean(), None, optimizer.parameters)
def step(x):
    loss, found = gradients(x)
    optimizer(found)
    return loss
"""
CELL = """
class WithLoss(nn.Cell):
    def __init__(self):
        super().__init__()
        self.network = net
    def construct(self, x):
        return (self.network(x) ** 2).mean()
step = nn.TrainOneStepCell(WithLoss(), optimizer)
"""


def run(tmp_path: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout


def check(tmp_path: Path, step: str, path: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.format(step=step))
    plain = run(tmp_path, "train.py")
    assert run(tmp_path, "-m", "msprobe", "run", "-o", "run", "train.py") == plain  # to the last bit
    content = json.loads((tmp_path / "run/run.rank0.json").read_text())
    assert (content["steps"], content["optimizers"]) == (4, ["Adam"])
    assert content["mindspore"]
    losses = (tmp_path / "run/losses.rank0.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in losses] == plain.split()
    dump = tmp_path / "run/dump/step2/rank"
    names = json.loads(read_text(dump / "dump.json"))["data"]
    assert f"Cell.{path}0.Dense.backward.0" in names
    state = json.loads(read_text(dump / "diagnosis.json"))
    assert state["modules"][f"{path}1"]["settings"]["epsilon"] == 1e-7
    hyper = state["optimizer"][0]["groups"][0]["hyper"]
    assert (hyper["lr"], hyper["betas.1"]) == ({"value": 0.01}, {"value": 0.999})
    gradients = tmp_path / "run/grad_probe/rank0/gradients.msprobe"
    assert f"{path}1.gamma".encode() in gradients.read_bytes()


def test_a_training_that_differentiates_a_function(tmp_path: Path) -> None:
    check(tmp_path, FUNCTION, "")


def test_a_training_by_a_cell_of_one_step(tmp_path: Path) -> None:
    check(tmp_path, CELL, "network.")
