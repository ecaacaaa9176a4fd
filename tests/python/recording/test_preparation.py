# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a program computes between its steps is recorded as the preparation of the next one."""

from __future__ import annotations

import json
import os
import signal

import msprobe
import pytest
import torch
from msprobe.dump import preparation
from msprobe.files.regular_file import read_text
from recording_support import python, recorded
from torch import nn

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
torch.ones(5).cumsum(0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(1)
for step in range(4):
    x = torch.randn(5, 3, generator=generator)
    wanted = x.sum(1, keepdim=True).sigmoid()
    loss = nn.functional.mse_loss(model(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
"""


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def prepared(folder, step: int = 0) -> list[str]:
    """The names of the calls, without "forward", in their order."""
    place = folder / f"dump/step{step}/rank"
    around = json.loads(read_text(place / "construct.json"))
    return [
        name.removesuffix(".forward")
        for name in json.loads(read_text(place / "dump.json"))["data"]
        if around.get(name) == "preparation"
    ]


def train(model, optimizer, between, steps: int = 3) -> None:
    for _ in range(steps):
        between()
        loss = model(torch.ones(2, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def capture(out, between, model=None) -> None:
    model = model or net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with msprobe.capture(output=out, without=["config"]):
        train(model, optimizer, between)


def test_a_script(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    plain = python("train.py", cwd=tmp_path).stdout
    assert recorded("--steps", "0-2", "train.py", cwd=tmp_path).stdout == plain
    for step in range(3):  # behind the optimizer, and the steps are alike
        assert prepared(tmp_path / "out", step) == ["Tensor.sum.0", "Tensor.sigmoid.0"]
    assert sorted(os.listdir(tmp_path / "out/dump")) == ["step0", "step1", "step2"]


def test_it_stands_in_front_of_the_model(out):
    capture(out, lambda: torch.ones(3).cumsum(0))
    names = list(json.loads(read_text(out / "dump/step1/rank/dump.json"))["data"])
    assert names.index("Tensor.cumsum.0.forward") < names.index("Module.0.Linear.forward.0")


def test_what_a_model_computes_that_is_not_trained_is_left_out(out):
    other = nn.Linear(3, 3)

    def between():
        with torch.no_grad():
            other(torch.ones(2, 3)).argmax(-1)

    capture(out, between)
    assert prepared(out, 1) == ["Tensor.argmax.0"]


def test_a_model_that_raises_ends_nothing(out):
    model = net()

    def between():
        with pytest.raises(RuntimeError), torch.no_grad():
            model(torch.ones(2, 9))
        with torch.no_grad():
            model(torch.ones(2, 3))
        torch.ones(3).cumsum(0)

    capture(out, between, model)
    assert prepared(out, 1) == ["Tensor.cumsum.0"]


def test_a_module_without_parameters_is_a_function_of_the_program(out):
    capture(out, lambda: nn.Softmax(-1)(torch.ones(2, 3)))
    assert prepared(out, 1) == ["Functional.softmax.0"]


def test_another_optimizer_is_of_the_step_before(out):
    model, other = net(), nn.Linear(2, 2)
    first = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.AdamW(other.parameters(), lr=0.1)
    other.weight.grad = torch.ones(2, 2)

    def between():
        second.step()
        torch.ones(3).cumsum(0)

    with msprobe.capture(output=out, without=["config"]):
        train(model, first, between)
    assert prepared(out, 1) == ["Tensor.cumsum.0"]


def test_what_stands_in_front_of_the_last_optimizer_is_no_step(out):
    model = net()
    with msprobe.capture(output=out, without=["config"]):
        torch.optim.SGD(model.parameters(), lr=0.1)
        torch.ones(3).cumsum(0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, optimizer, lambda: torch.ones(3).cumprod(0))
    assert prepared(out) == ["Tensor.cumprod.0"]


def test_no_more_calls_than_the_bound(out, monkeypatch, caplog):
    monkeypatch.setattr(preparation, "MOST_CALLS", 2)
    capture(out, lambda: [torch.ones(3).cumsum(0) for _ in range(5)])
    assert caplog.text.count("makes more calls before the model than are recorded") == 1
    assert prepared(out, 1) == ["Tensor.cumsum.0", "Tensor.cumsum.1"]
    names = json.loads(read_text(out / "dump/step1/rank/dump.json"))["data"]
    assert "Module.0.Linear.forward.0" in names


def test_of_a_process_that_trains_nothing_nothing_stays(tmp_path):
    script = (
        "import torch\nw = torch.ones(2, requires_grad=True)\ntorch.optim.SGD([w], lr=1.0)\nw.cumsum(0)\n"
    )
    (tmp_path / "train.py").write_text(script)
    assert recorded("train.py", cwd=tmp_path).returncode == 0
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"train.py", "run.rank0.json"}


def test_of_a_killed_process_the_steps_can_be_read(tmp_path):
    kill = "    if step == 1:\n        import os\n\n        x.cumsum(0)\n        os.kill(os.getpid(), 9)\n"
    (tmp_path / "train.py").write_text(SCRIPT + kill)
    assert recorded("train.py", cwd=tmp_path).returncode == -signal.SIGKILL
    (tmp_path / "whole.py").write_text(SCRIPT)
    recorded("whole.py", cwd=tmp_path)
    assert prepared(tmp_path / "out") == ["Tensor.sum.0", "Tensor.sigmoid.0"]
