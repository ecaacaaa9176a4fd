# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One comparison by 2 and 4 processes, as torchrun starts them: the same answer, also after a killed run, and
one clear report when a process is lost.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compare_support import call, steps_of, write_dump, write_run
from msprobe import InvalidArgument
from msprobe.compare.inputs import Paths
from msprobe.compare.processes import Part, of_json, to_json
from msprobe.compare.run import CompareOptions, compare_runs
from msprobe.files.meeting import Process, of_environment

GOOD = steps_of(3)
RANKS = [f"rank{number}" for number in range(5)]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("golden", "other"):
        write_run(tmp_path / name, RANKS, [0, 1], GOOD)
    write_dump(tmp_path / "other/step1/rank3", {**GOOD, "Torch.add.1.forward": call(2.0, result=400.0)})
    return tmp_path


def start(runs: Path, number: int, count: int, *more: object) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "RANK": str(number),
        "WORLD_SIZE": str(count),
        "TORCHELASTIC_RUN_ID": "none",
        "MASTER_PORT": "29500",
    }
    words = ["compare", runs / "golden", runs / "other", "-o", runs / "out", "--json", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "msprobe", *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def alone(runs: Path) -> dict[str, Any]:
    words = ["compare", runs / "golden", runs / "other", "-o", runs / "alone", "--json"]
    done = subprocess.run([sys.executable, "-m", "msprobe", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    return comparable(json.loads(done.stdout))


def comparable(content: dict[str, Any]) -> dict[str, Any]:
    """Without paths and times."""
    del content["inputs"]
    content.pop("seconds", None)
    for pair in content["pairs"]:
        del pair["table"]
    return content


@pytest.mark.parametrize("count", [2, 4])
def test_the_same_answer_as_one_process(runs: Path, count: int) -> None:
    results = [ended(process) for process in [start(runs, number, count) for number in range(count)]]
    assert [code for code, _, _ in results] == [1] + [0] * (count - 1), results
    assert all(out == "" for _, out, _ in results[1:])
    content = json.loads(results[0][1])
    tables = {Path(pair["table"]).name.rpartition("_")[2] for pair in content["pairs"]}
    assert len(tables) == 1  # one time in all names
    assert len(list((runs / "out").rglob("compare_result_*.xlsx"))) == 10
    assert comparable(content) == alone(runs)
    assert (content["worst_rank"], content["first_step"]) == (3, 1)
    assert not [path for path in (runs / "out").iterdir() if path.name.startswith(".")]


def test_more_processes_than_ranks(runs: Path) -> None:
    results = [ended(process) for process in [start(runs, n, 4, "--rank", "0,3") for n in range(4)]]
    assert [code for code, _, _ in results] == [1, 0, 0, 0], results
    assert len(json.loads(results[0][1])["pairs"]) == 4


def test_what_a_killed_run_left_is_not_taken_for_a_part(runs: Path) -> None:
    folder = runs / "out/.compare_none_29500"
    folder.mkdir(parents=True)
    (folder / "start.json").write_text(
        json.dumps({"number": "old", "chosen": "20200101000000", "seen": {"1": "x"}})
    )
    (folder / "hello.1.json").write_text(json.dumps({"number": "x", "beat": 7}))
    (folder / "part.1.json").write_text(json.dumps({"start": "old", "pairs": [], "left_out": []}))
    processes = [start(runs, number, 2) for number in (1, 0)]
    results = [ended(process) for process in processes]
    assert [code for code, _, _ in results] == [0, 1], results
    content = json.loads(results[1][1])
    assert len(content["pairs"]) == 10
    assert "20200101000000" not in content["pairs"][0]["table"]


def test_a_process_that_dies_is_reported(runs: Path) -> None:
    first = start(runs, 0, 2, "--timeout", "3")
    began = time.monotonic()
    code, out, _ = ended(first)  # process 1 never comes
    assert code == 1
    assert time.monotonic() - began < 60
    content = json.loads(out)
    assert {pair["rank"] for pair in content["pairs"]} == {0, 2, 4}
    lost = [one for one in content["left_out"] if "process 1 of 2" in one["reason"]]
    assert [one["what"] for one in lost] == ["steps 0-1, ranks 1, 3"]


def test_process_0_that_never_comes(runs: Path) -> None:
    code, _, err = ended(start(runs, 1, 2, "--timeout", "1"))
    assert code == 2
    assert "process 0 of 2 did not answer within 1 s" in err


def test_an_error_of_another_process_reaches_the_answer(runs: Path) -> None:
    for step in (0, 1):
        for rank in (1, 3):
            (runs / f"other/step{step}/rank{rank}/dump.json").write_text("{")
    results = [ended(process) for process in [start(runs, number, 2) for number in range(2)]]
    assert [code for code, _, _ in results] == [1, 0], results
    left_out = json.loads(results[0][1])["left_out"]
    assert [one["what"] for one in left_out] == ["steps 0-1, ranks 1, 3"]


def test_repeated_runs_are_shared_too(runs: Path) -> None:
    off = {**GOOD, "Torch.add.1.forward": call(2.0, result=4.004)}
    write_run(runs / "other", RANKS, [0, 1], off)
    write_run(runs / "again", RANKS, [0, 1], off)
    results = [ended(process) for process in [start(runs, n, 2, "--noise", runs / "again") for n in range(2)]]
    assert [code for code, _, _ in results] == [0, 0], results
    results = [ended(process) for process in [start(runs, n, 2, "--force") for n in range(2)]]
    assert [code for code, _, _ in results] == [1, 0], results


def test_a_part_is_the_same_after_its_way_through_a_file(runs: Path) -> None:
    for rank in RANKS:
        write_dump(runs / f"other/step1/{rank}", {"Torch.mul.0.forward": call(1.0), **GOOD})
    result = compare_runs(Paths(runs / "other", runs / "golden"), CompareOptions(runs / "out"))
    assert result is not None
    assert any(pair.walk.findings for pair in result.pairs)
    part = Part(result.pairs, result.left_out)
    again = of_json(json.loads(json.dumps(to_json(part))))
    for ours, theirs in zip(part.pairs, again.pairs):
        assert replace(ours, walk=None) == replace(theirs, walk=None)
        assert json.dumps(ours.walk.plain()) == json.dumps(theirs.walk.plain())
    assert len(again.pairs) == len(part.pairs)
    assert again.left_out == part.left_out


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"RANK": "1", "WORLD_SIZE": "4"}, None),  # something else set them
        ({"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "x"}, None),
        (
            {"RANK": "3", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "a/../b", "MASTER_PORT": "1"},
            Process(3, 4, "a____b_1"),
        ),
    ],
)
def test_what_torchrun_says(environment: dict[str, str], expected: Process | None) -> None:
    assert of_environment(environment) == expected


@pytest.mark.parametrize(("rank", "world"), [("4", "4"), ("x", "4"), ("0", ""), ("-1", "2")])
def test_what_torchrun_does_not_say(rank: str, world: str) -> None:
    with pytest.raises(InvalidArgument, match="the environment says"):
        of_environment({"RANK": rank, "WORLD_SIZE": world, "TORCHELASTIC_RUN_ID": "x"})


def test_all_ranks_fail(runs: Path) -> None:
    for path in (runs / "other").rglob("dump.json"):
        path.write_text("{")
    results = [ended(process) for process in [start(runs, number, 2) for number in range(2)]]
    assert [code for code, _, _ in results] == [2, 0], results
    assert "dump.json" in results[0][2]
