# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Planted faults: that they are what the catalogue says, and that the verdict finds them.

A part runs always; all of them with MSPROBE_TEST_SLOW=faults (two minutes on two idle cores).
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from catalogue import BY_NAME, CONTROLS, FAULTS, KINDS, Control, Fault
from evidence import differences
from msprobe.files.regular_file import read_text
from run import MODES, cases, generate
from score import ASKED, Answer, ask_all, score, table

EVERYTHING = "faults" in os.environ.get("MSPROBE_TEST_SLOW", "")

# Each area, and what is hard: other kernels, other functions, gradients of nothing but rounding.
PART = """
    token layer_norm_eps residual_missing softmax_kernel gelu_backward gradient_scaled rank_reduction max_norm
    state_reset kernel_beside_fused again_transformer fused_attention other_convolution
""".split()  # noqa: SIM905

NAMES = list(BY_NAME) if EVERYTHING else PART
FAULT_NAMES = [name for name in NAMES if isinstance(BY_NAME[name], Fault)]
CONTROL_NAMES = [name for name in NAMES if isinstance(BY_NAME[name], Control)]
NOISY_NAMES = [name for name in NAMES if getattr(BY_NAME[name], "noise", True)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reference runs, and runs with faults."""
    out = tmp_path_factory.mktemp("faults")
    faults = generate(out, cases(NAMES))
    assert not faults, "\n".join(faults)
    return out


def golden(out: Path, name: str) -> Path:
    item = BY_NAME[name]
    return out / "golden" / f"{item.model}.{item.variant}"


def losses(folder: Path) -> list[float]:
    return [loss for path in sorted(folder.glob("losses*.json")) for loss in json.loads(path.read_text())]


# ---- the catalogue


def test_catalogue_covers_what_a_training_consists_of() -> None:
    assert len(FAULTS) >= 98
    assert {item.model for item in FAULTS} == {item.model for item in CONTROLS}
    areas = {"data", "forward", "backward", "communication", "optimizer", "settings"}
    assert {item.area for item in FAULTS} == areas
    assert {kind for item in FAULTS for kind in item.kinds} == KINDS


# ---- the runs


@pytest.mark.parametrize("name", FAULT_NAMES)
def test_first_difference_is_what_was_planted(recorded: Path, name: str) -> None:
    fault = BY_NAME[name]
    assert isinstance(fault, Fault)
    found = differences(golden(recorded, name) / "dump", recorded / "quiet" / name / "dump")
    assert found
    first = found[0]
    assert re.search(fault.first, first.text), f"{first} is not {fault.first}"
    assert first.step == fault.step
    assert fault.rank in (None, first.rank)


@pytest.mark.parametrize("name", CONTROL_NAMES)
def test_healthy_run_computes_the_same(recorded: Path, name: str) -> None:
    control = BY_NAME[name]
    assert isinstance(control, Control)
    reference = golden(recorded, name)
    quiet = recorded / "quiet" / name
    if control.exact:
        assert not differences(reference / "dump", quiet / "dump")
        assert losses(quiet) == losses(reference)
    for folder in (quiet, recorded / "noise" / name):
        assert losses(folder) == pytest.approx(losses(reference), rel=1e-5)


@pytest.mark.parametrize("name", NOISY_NAMES)
def test_noise_begins_with_the_first_kernel(recorded: Path, name: str) -> None:
    reference = golden(recorded, name) / "dump"
    before = ("modules", "rng", "parameters", "buffers", "inputs")
    places = []
    for mode in MODES:
        found = differences(reference, recorded / mode / name / "dump")
        begin = [item.text.split()[:2] for item in found if item.step == 0]
        places.append([place for place in begin if place[0] in before])
    assert places[0] == places[1]
    assert len(found) > 100


@pytest.mark.parametrize("name", NOISY_NAMES)
def test_noise_adds_no_records(recorded: Path, name: str) -> None:
    for step in (recorded / "quiet" / name / "dump").glob("step*/rank*"):
        quiet, noisy = (
            json.loads(
                read_text(recorded / mode / name / "dump" / step.parent.name / step.name / "dump.json")
            )
            for mode in MODES
        )
        assert set(noisy["data"]) == set(quiet["data"])


@pytest.mark.parametrize("name", NOISY_NAMES)
def test_losses_are_finite(recorded: Path, name: str) -> None:
    for mode in MODES:
        if name != "kernel_nan":
            assert all(map(math.isfinite, losses(recorded / mode / name)))


# ---- the score


def culprit(**values: Any) -> dict[str, Any]:
    return {
        "kind": "weight",
        "name": "blocks.1.mlp.up.weight",
        "module": "blocks.1.mlp.up",
        "step": 0,
        **values,
    }


@pytest.mark.parametrize(
    ("first", "right"),
    [
        (culprit(), True),
        (culprit(name="", operator=None), True),
        (culprit(kind="buffer"), False),
        (culprit(step=1), False),
        (culprit(name="head.weight", module="head"), False),
    ],
)
def test_culprit_is_judged_by_kind_step_and_place(first: dict[str, Any], right: bool) -> None:
    answer = Answer("quiet", "weight_at_start", "", "differ", (first, culprit()))
    assert answer.right is right
    assert answer.position == (1 if right else 2)


def test_rank_counts_where_one_is_planted() -> None:
    found = {"kind": "input_data", "name": "features", "module": "", "step": 1}
    assert Answer("quiet", "rank_data", "", "differ", ({**found, "rank": 1},)).right
    assert not Answer("quiet", "rank_data", "", "differ", ({**found, "rank": 0},)).right


def test_score_counts_first_culprits_and_accusations() -> None:
    right = Answer("quiet", "weight_at_start", "", "differ", (culprit(),))
    wrong = Answer("quiet", "token", "exit code 2")
    healthy = Answer("noise", "again_cnn", "", "agree")
    accused = Answer("noise", "again_rnn", "", "differ", (culprit(),))
    assert score([right, healthy]).enough
    assert score([right, wrong]).share == {"quiet": 0.5}
    assert score([right, healthy, accused]).accused == ("noise/again_rnn",)
    assert not score([right, accused]).enough
    assert "WRONG noise again_rnn" in table([right, accused])


FAKE_COMMAND = """
import json, pathlib, sys
golden, target, _, out = sys.argv[1:]
assert pathlib.Path(golden).name == pathlib.Path(target).name == "dump"
kind = pathlib.Path(target).parent.name
if kind == "token":
    sys.exit(2)
found = [{"kind": "weight", "name": "blocks.1.mlp.up.weight", "step": 0}] if kind == "weight_at_start" else []
pathlib.Path(out).mkdir(parents=True)
status = "differ" if found else "agree"
pathlib.Path(out, "verdict.json").write_text(json.dumps({"status": status, "culprits": found}))
sys.exit(len(found))
"""


@pytest.mark.parametrize(
    ("name", "fault", "right"),
    [
        ("weight_at_start", "", True),
        ("again_cnn", "", True),
        ("lstm_kernel", "", False),
        ("token", "no verdict", False),
    ],
)
def test_command_is_asked_for_each_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str, right: bool
) -> None:
    script = tmp_path / "command.py"
    script.write_text(FAKE_COMMAND)
    monkeypatch.setattr("score.COMMAND", (sys.executable, str(script)))
    (tmp_path / "quiet" / name).mkdir(parents=True)
    (tmp_path / "quiet" / name / "done").touch()
    (answer,) = ask_all(tmp_path, [name])
    assert bool(answer.fault) is bool(fault)
    assert answer.right is right


def test_verdict_names_the_culprits(recorded: Path) -> None:
    answers = ask_all(recorded, NAMES)
    result = score(answers)
    assert set(result.share) == set(ASKED)
    assert result.enough, table(answers)
