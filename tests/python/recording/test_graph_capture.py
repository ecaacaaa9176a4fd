# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Scripts that capture CUDA graphs. There is no GPU in these tests: a switch stands in for torch's answer to
"is this stream captured".
"""

from __future__ import annotations

import json

import pytest
import torch
from msprobe.files.regular_file import read_text
from msprobe.native import UnsupportedError, torch_adapter
from recording_support import python, recorded, run_file

# As the notes of torch have it: warm up, capture a whole step, replay. A replay calls nothing of Python.
WHOLE_STEP = """
import contextlib, torch
from torch import nn
from torch.overrides import TorchFunctionMode
from msprobe.native import torch_adapter

@contextlib.contextmanager
def captured():
    torch_adapter().pretend_capture(True)
    yield
    torch_adapter().pretend_capture(False)

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(5, 6), torch.randn(5, 4)

def step():
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss

for _ in range(2):
    print(step().item().hex())
with captured():
    for _ in range(3):
        loss = step()
print(loss.item().hex())
print(step().item().hex())
"""

# Only the model: make_graphed_callables captures it, and puts a replay in the place of its forward.
MODEL_ALONE = """
forward = model.forward

def replay(x):
    with captured():
        return forward(x)

with captured():
    forward(x)
model.forward = replay
print(step().item().hex())
print(step().item().hex())
"""


def records(folder, step):
    return json.loads(read_text(folder / f"out/dump/step{step}/rank/dump.json"))["data"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    (folder / "train.py").write_text(WHOLE_STEP)
    return python("train.py", cwd=folder)


@pytest.mark.parametrize("options", [("--monitor",), ("--level", "L0", "--perturb")])
def test_a_captured_step_is_none(tmp_path, plain, options):
    (tmp_path / "train.py").write_text(WHOLE_STEP)
    run = recorded(*options, "train.py", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (0, plain.stdout), run.stderr
    assert run.stderr.count("not recorded: captured into a CUDA graph") == 1
    assert run_file(tmp_path / "out")["steps"] == 3
    losses = [line.split(",")[1:] for line in (tmp_path / "out/losses.rank0.csv").read_text().split()[1:]]
    outside = [float.fromhex(plain.stdout.split()[place]) for place in (0, 1, 3)]
    assert losses == [[repr(loss), "1"] for loss in outside]


def test_loss_and_gradients_outside_of_a_captured_model_are_recorded(tmp_path):
    (tmp_path / "train.py").write_text(WHOLE_STEP.partition("with captured():")[0] + MODEL_ALONE)
    plain = python("train.py", cwd=tmp_path)
    run = recorded("--steps", "1-2", "train.py", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (0, plain.stdout), run.stderr
    lines = (tmp_path / "out/losses.rank0.csv").read_text().split()[1:]
    assert [float(line.split(",")[1]).hex() for line in lines] == plain.stdout.split()
    before, behind = records(tmp_path, 1), records(tmp_path, 2)
    assert "Module.0.Linear.forward.0" in before
    assert "Module.0.Linear.forward.0" not in behind
    state = json.loads(read_text(tmp_path / "out/dump/step2/rank/diagnosis.json"))
    assert state["gradients_at_optimizer"][0]["gradients"]["0.weight"]["norm"] > 0


def test_nothing_is_measured_while_a_stream_is_captured():
    native = torch_adapter()
    tensor = torch.ones(3)
    native.pretend_capture(True)
    native.set_device_way("operators")
    try:
        assert native.captures_graph()
        with pytest.raises(UnsupportedError, match="is captured into a CUDA graph"):
            native.summarize(tensor)
    finally:
        native.set_device_way("none")
        native.pretend_capture(False)
    assert not native.captures_graph()
    assert native.summarize(tensor)["count"] == 3


def test_asking_does_not_make_torch_use_a_device():
    assert not torch_adapter().captures_graph()
    assert not torch.cuda.is_initialized()
