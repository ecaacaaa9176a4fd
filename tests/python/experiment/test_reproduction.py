# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a hunt gives for a report: lines that mend the target, and a script of the call; hunt.yaml."""

from __future__ import annotations

import pytest
import torch
from msprobe.diagnose.cause import Cause
from msprobe.experiment.plan import Change
from msprobe.hunt.file import words_of
from msprobe.hunt.reproduction import write_call, write_change
from msprobe.native import InvalidArgument
from torch import nn


def test_the_lines_of_a_change_set_what_was_proved(tmp_path):
    changes = {
        "0.eps": "0.1",
        "model.training": "False",
        "0.weight.requires_grad": "False",
        "optimizer.lr": "0.5",
        "optimizer.groups.1.momentum": "0.25",
        "torch.num_threads": str(torch.get_num_threads()),
        "torch.backends.cudnn.benchmark": "False",
    }
    (path,) = write_change(tmp_path, [(Change(name, value), "other") for name, value in changes.items()])
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD([{"params": one.parameters()} for one in model], lr=0.1)
    exec(path.read_text(), {"torch": torch, "model": model, "optimizer": optimizer})
    assert (model[0].eps, model.training, model[0].weight.requires_grad) == (0.1, False, False)
    assert [(one["lr"], one["momentum"]) for one in optimizer.param_groups] == [(0.5, 0), (0.5, 0.25)]
    assert path.read_text().count("# was other") == len(changes)


def test_the_lines_of_a_compiler_s_change_have_the_model_compiled_with_it(tmp_path, monkeypatch):
    (path,) = write_change(tmp_path, [(Change("compile.backend", "eager"), "inductor")])
    monkeypatch.setattr(torch, "compile", lambda model, *, backend: (model, backend))
    exec(path.read_text(), {"torch": torch})
    assert torch.compile("model") == ("model", "eager")


def test_what_no_line_sets_is_a_remark(tmp_path):
    change = Change("env.OMP_NUM_THREADS", "1")
    (path,) = write_change(tmp_path, [(change, "2\nimport os")])
    exec(path.read_text(), {})
    assert "# env.OMP_NUM_THREADS=1" in path.read_text()


@pytest.mark.parametrize("record", ["Module.layers.0.Linear.forward.0", "Functional.linear.0.forward", ""])
def test_a_call_that_cannot_be_made_again_has_no_script(tmp_path, record):
    cause = Cause("operators", "dump", "a call", "", 0.9, 0, 0, record=record)
    assert write_call(tmp_path, tmp_path, cause) == []


def test_a_file_of_a_hunt_is_read_as_options(tmp_path):
    file = tmp_path / "hunt.yaml"
    file.write_text("reference: python a.py\ntarget_env: {A: 1, B: x}\nstop: 3\n")
    words = ["--reference", "python a.py", "--target-env", "A=1", "--target-env", "B=x", "--stop", "3"]
    assert words_of(str(file)) == words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stop: -1", "stop: expected a number of 0 or more"),
        ("stop: true", "stop: expected a number of 0 or more, found true or false"),
        ("reference: [a]", "reference: expected text, found a list"),
        ("target_env: {A: [1]}", "target_env: A: expected text, found a list"),
        ("refrence: a", "refrence: expected one of reference, target"),
        ("- a", "expected a YAML mapping"),
    ],
)
def test_a_wrong_file_of_a_hunt_is_refused_with_its_key(tmp_path, text, said):
    file = tmp_path / "hunt.yaml"
    file.write_text(text)
    with pytest.raises(InvalidArgument, match=r"hunt\.yaml: ") as error:
        words_of(str(file))
    assert said in str(error.value)
