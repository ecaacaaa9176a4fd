# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe explain: of the dumps of an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compare_support import call, write_dump
from msprobe.cli import main
from msprobe.compare.explain import explain
from msprobe.native import InvalidArgument

NAME = "Functional.gelu.0.forward"


def test_steps_are_those_of_the_answer(tmp_path: Path) -> None:
    for run, step, result in (("a", 0, 9.0), ("a", 3, 2.0), ("b", 0, 2.5)):
        write_dump(tmp_path / run / f"step{step}" / "rank0", {NAME: call(1.0, result)})
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["compare", *paths, "--offset", "3", "-o", str(tmp_path / "answer"), "--quiet"]) == 1
    found = explain(tmp_path / "answer", NAME)
    assert {one.step for one in found.places} == {3}


def test_a_place_of_two_frameworks_has_the_name_that_was_judged(tmp_path: Path) -> None:
    for framework, name, result in (("pytorch", NAME, 2.0), ("mindspore", "mint.nn.gelu.0.forward", 2.5)):
        path = write_dump(tmp_path / framework, {name: call(1.0, result)})
        path.write_text(path.read_text().replace('"pytorch"', f'"{framework}"'))
    places = "ms_args: [0], pt_args: [0], ms_output: [0], pt_output: [0]"
    rule = f"- {{ms_api: mint.nn.gelu, pt_api: Functional.gelu, {places}}}"
    (tmp_path / "names.yaml").write_text(rule)
    words = [str(tmp_path / "pytorch" / "dump.json"), str(tmp_path / "mindspore" / "dump.json")]
    words += ["-am", str(tmp_path / "names.yaml"), "-o", str(tmp_path / "answer"), "--quiet"]
    assert main(["compare", *words]) == 1
    (place,) = explain(tmp_path / "answer", NAME).places
    assert place.is_suspect


def test_what_is_no_answer_about_dumps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text(json.dumps({"pairs": 3}))
    with pytest.raises(InvalidArgument, match="record both runs with msprobe run"):
        explain(tmp_path, NAME)
