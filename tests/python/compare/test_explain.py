# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe explain: of the dumps of an answer."""

from __future__ import annotations

from compare_support import call, write_dump
from msprobe.cli import main
from msprobe.compare.explain import explain


def test_steps_are_those_of_the_answer(tmp_path):
    name = "Functional.gelu.0.forward"
    for run, step, result in (("a", 0, 9.0), ("a", 3, 2.0), ("b", 0, 2.5)):
        write_dump(tmp_path / run / f"step{step}" / "rank0", {name: call(1.0, result)})
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["compare", *paths, "--offset", "3", "-o", str(tmp_path / "answer"), "--quiet"]) == 1
    found = explain(tmp_path / "answer", name)
    assert {one.step for one in found.places} == {3}
