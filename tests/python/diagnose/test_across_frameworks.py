# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A run of MindSpore against one of PyTorch: recordings with planted faults (tests/data/mindspore)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from archives import unpack
from msprobe.cli import main
from msprobe.compare.across_frameworks import Paired

ARCHIVE = Path(__file__).resolve().parents[2] / "data/mindspore/across.tar.xz"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("across")
    unpack(ARCHIVE, folder)
    return folder


def answer(reference: Path, target: Path, output: Path, *options: str) -> dict[str, Any]:
    words = [str(reference), str(target), "-o", str(output), "--no-graph", "--quiet", *options]
    assert main(["diagnose", *words]) in (0, 1)
    found: dict[str, Any] = json.loads((output / "diagnose.json").read_text())
    return found


def test_a_port_that_is_right_agrees_within_rounding(recorded: Path, tmp_path: Path) -> None:
    found = answer(recorded / "pytorch", recorded / "mindspore_healthy", tmp_path / "out")
    assert found["status"] == "rounding"
    assert any("no counterpart in the other framework" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("eps", "ln.eps = 0.01 (reference: 1e-05)"),
        ("gelu", "act.approximate = tanh (reference: none)"),
        ("relu", "act.class = ReLU (reference: GELU)"),
        ("axis", "sm.dim = 0 (reference: -1)"),
        ("rate", "lr = 0.02 (reference: 0.01)"),
        ("weight", "parameter fc2.weight differs before anything was computed"),
        ("bias", "parameter fc2.bias differs before anything was computed"),
        ("gamma", "parameter ln.weight differs before anything was computed"),
        ("transposed", "parameter head.weight differs before anything was computed"),
        ("data", "input 0 of fc1 has another value"),
        ("half", "fc1 gives another result for equal inputs"),
    ],
)
def test_a_planted_fault_is_named_first(recorded: Path, tmp_path: Path, fault: str, said: str) -> None:
    found = answer(recorded / "pytorch", recorded / f"mindspore_{fault}", tmp_path / "out")
    assert found["status"] == "differ"
    assert said in found["sentence"]


def test_the_reference_may_be_of_mindspore(recorded: Path, tmp_path: Path) -> None:
    found = answer(recorded / "mindspore_eps", recorded / "pytorch", tmp_path / "out")
    assert "ln.eps = 1e-05 (reference: 0.01)" in found["sentence"]


def test_what_a_class_is_called_in_the_program_does_not_matter(recorded: Path, tmp_path: Path) -> None:
    """A Cell of a class of the program is the Module of its path; a file names those of another path."""
    (tmp_path / "cells.yaml").write_text("fc1.Half: fc1.Linear\n")
    options = ("-cm", str(tmp_path / "cells.yaml"))
    found = answer(recorded / "pytorch", recorded / "mindspore_half", tmp_path / "out", *options)
    assert "fc1" in found["sentence"]


def test_what_wrappers_put_before_the_paths_does_not_matter() -> None:
    ours = {f"Cell.network._backbone.{name}.Dense.forward.0": {} for name in ("fc1", "fc2")}
    theirs = {f"Module.module.{name}.Linear.forward.0": {} for name in ("fc1", "fc2", "fc3")}
    paired = Paired(ours, theirs, {})
    assert paired.path_of("network._backbone.fc1") == "module.fc1"
    assert paired.cells["network._backbone.fc2.Dense"] == "module.fc2.Linear"
