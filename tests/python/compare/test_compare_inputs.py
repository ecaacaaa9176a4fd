# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which files are paired, in every form in which a user may name them, and what is said about wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compare_support import steps_of, write_dump, write_run
from msprobe import Error, FormatError, InvalidArgument, IoError, NothingToCompare
from msprobe.compare.inputs import (
    Inputs,
    Paths,
    find_pairs,
    read_compare_file,
    read_data_mapping,
    stack_path,
)

DATA = steps_of(1)


def pairs_of(inputs: Inputs) -> list[tuple[int, int, str, str]]:
    return [(one.step, one.rank, one.folder, one.suffix) for one in inputs.pairs]


def find(target: Path, golden: Path, **which: Any) -> Inputs:
    return find_pairs(Paths(target, golden), **which)


def test_two_files_of_the_folders_of_a_step_and_rank(tmp_path: Path) -> None:
    target = write_dump(tmp_path / "a/step3/rank12", DATA)
    golden = write_dump(tmp_path / "b", DATA)
    inputs = find(target, golden)
    assert pairs_of(inputs) == [(3, 12, "", "")]
    assert (inputs.pairs[0].target, inputs.pairs[0].reference) == (target, golden)


def test_a_rank_folder_has_both_files(tmp_path: Path) -> None:
    for side in "ab":
        for name in ("dump.json", "debug.json"):
            write_dump(tmp_path / side, DATA, name=name)
    inputs = find(tmp_path / "a", tmp_path / "b")
    assert [one.target.name for one in inputs.pairs] == ["dump.json", "debug.json"]


def test_a_file_that_only_one_side_has_is_told(tmp_path: Path) -> None:
    for side in "ab":
        write_dump(tmp_path / side, DATA)
    write_dump(tmp_path / "b", DATA, name="debug.json")
    left_out = find(tmp_path / "a", tmp_path / "b").left_out
    assert [(one.what, one.reason) for one in left_out] == [
        ("step 0, rank 0, debug.json", "only in the reference")
    ]


def test_ranks_are_paired_by_number_not_by_text(tmp_path: Path) -> None:
    ranks = [f"rank{number}" for number in range(12)]
    write_run(tmp_path / "a", ranks, [0], DATA)
    write_run(tmp_path / "b", [rank for rank in ranks if rank != "rank2"], [0], DATA)
    inputs = find(tmp_path / "a/step0", tmp_path / "b/step0")
    assert [one.rank for one in inputs.pairs] == [0, 1, *range(3, 12)]
    assert all(one.target.parent.name == one.reference.parent.name for one in inputs.pairs)
    assert [(one.what, one.reason) for one in inputs.left_out] == [("rank 2", "only in the target")]


def test_rank_without_number_is_rank_0(tmp_path: Path) -> None:
    write_run(tmp_path / "a", ["rank"], [0], DATA)
    write_run(tmp_path / "b", ["rank0"], [0], DATA)
    assert pairs_of(find(tmp_path / "a/step0", tmp_path / "b/step0")) == [(0, 0, "", "_rank")]


def test_a_process_without_rank_is_rank_0_whatever_its_number(tmp_path: Path) -> None:
    """Newer releases of mindstudio-probe name the folder of a lone process after it."""
    write_run(tmp_path / "a", ["proc4711"], [0, 1], DATA)
    write_run(tmp_path / "b", ["proc815"], [0, 1], DATA)
    assert pairs_of(find(tmp_path / "a", tmp_path / "b")) == [
        (0, 0, "step0", "_rank"),
        (1, 0, "step1", "_rank"),
    ]
    assert pairs_of(find(tmp_path / "a/step1/proc4711", tmp_path / "b/step1/proc815")) == [(1, 0, "", "")]
    write_run(tmp_path / "b", ["proc816"], [0], DATA)
    with pytest.raises(InvalidArgument, match="one folder for each number, found proc815 and proc816"):
        find(tmp_path / "a/step0", tmp_path / "b/step0")


def test_two_folders_of_one_rank_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "a", ["rank", "rank0"], [0], DATA)
    with pytest.raises(InvalidArgument, match="one folder for each number, found rank and rank0"):
        find(tmp_path / "a/step0", tmp_path / "a/step0")


def test_a_dump_path_has_all_steps(tmp_path: Path) -> None:
    write_run(tmp_path / "a", ["rank0", "rank1"], [0, 2, 10], DATA)
    write_run(tmp_path / "b", ["rank0", "rank1"], [0, 10, 11], DATA)
    (tmp_path / "a/summary.json").write_text("{}")
    inputs = find(tmp_path / "a", tmp_path / "b")
    assert pairs_of(inputs) == [
        (step, rank, f"step{step}", f"_rank{rank}") for step in (0, 10) for rank in (0, 1)
    ]
    assert [(one.what, one.reason) for one in inputs.left_out] == [
        ("step 2", "only in the target"),
        ("step 11", "only in the reference"),
    ]


def test_wanted_ranks_and_steps(tmp_path: Path) -> None:
    for side in "ab":
        write_run(tmp_path / side, ["rank0", "rank1", "rank2"], [0, 1, 2], DATA)
    inputs = find(tmp_path / "a", tmp_path / "b", ranks={0, 2}, steps={1, 7})
    assert [(one.step, one.rank) for one in inputs.pairs] == [(1, 0), (1, 2)]
    assert [(one.what, one.reason) for one in inputs.left_out] == [
        ("step 7", "asked for, but in neither run")
    ]
    with pytest.raises(InvalidArgument, match="steps can be chosen in a dump_path only"):
        find(tmp_path / "a/step0", tmp_path / "b/step0", steps={0})
    with pytest.raises(InvalidArgument, match="ranks can be chosen in folders of ranks only"):
        find(tmp_path / "a/step0/rank0", tmp_path / "b/step0/rank0", ranks={0})


def test_nothing_in_common(tmp_path: Path) -> None:
    write_run(tmp_path / "a", ["rank0"], [0], DATA)
    write_run(tmp_path / "b", ["rank0"], [1], DATA)
    with pytest.raises(NothingToCompare, match="step 0: only in the target; step 1: only in the ref"):
        find(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize(
    ("target", "golden", "message"),
    [
        ("a/step0/rank0/dump.json", "b", "dump.json is a dump.json or debug.json, .*b is a dump_path"),
        ("a/step0/rank0", "b/step0", "same kind: .* is the folder of a rank.* is the folder of a step"),
        ("a", "nothing", "nothing does not exist"),
        ("a", "empty", r"empty: expected dump.json or debug.json, or folders rank\{N\} or step\{N\} in it"),
        ("a/note.txt", "a", "note.txt: expected a file called dump.json or debug.json"),
        ("a/step0/rank0/dump.json", "b/step0/rank0/debug.json", "expected two files of the same name"),
    ],
)
def test_paths_that_do_not_fit(tmp_path: Path, target: str, golden: str, message: str) -> None:
    for side in "ab":
        write_run(tmp_path / side, ["rank0"], [0], DATA)
    write_dump(tmp_path / "b/step0/rank0", DATA, name="debug.json")
    (tmp_path / "empty").mkdir()
    (tmp_path / "a/note.txt").write_text("")
    with pytest.raises(InvalidArgument, match=message):
        find(tmp_path / target, tmp_path / golden)


# ---- compare.json


def compare_file(tmp_path: Path, content: Any) -> str:
    path = tmp_path / "compare.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_compare_file(tmp_path: Path) -> None:
    dump = str(write_dump(tmp_path, DATA))
    keys = {"npu_path": dump, "bench_path": str(tmp_path), "is_print_compare_log": False}
    paths = read_compare_file(compare_file(tmp_path, keys))
    assert paths == Paths(Path(dump), tmp_path, None, shows_log=False)
    paths = read_compare_file(compare_file(tmp_path, {**keys, "stack_path": dump, "other": 1}))
    assert paths.stack == Path(dump)


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ("{", FormatError, "compare.json: line 1, column 2: expected JSON"),
        ("[1]", FormatError, r'expected an object with "npu_path" and "bench_path", found \[1\]'),
        ('{"npu_path": ".", "npu_path": "."}', FormatError, "the key stands twice"),
        ("[" * 100000, FormatError, "nested too deeply"),
        ("\xff", FormatError, "byte 0: expected UTF-8 text"),
        (" " * 11_000_000, FormatError, "at most 10 MiB"),
        ({"bench_path": "."}, InvalidArgument, '"npu_path": expected a path, found no such key'),
        ({"npu_path": 3, "bench_path": "."}, InvalidArgument, '"npu_path": expected a path, found 3'),
        ({"npu_path": ".", "bench_path": ""}, InvalidArgument, '"bench_path": expected a path, found ""'),
        ({"npu_path": ".", "bench_path": "/no"}, InvalidArgument, '"bench_path": there is no /no'),
        ({"npu_path": "\0", "bench_path": "."}, InvalidArgument, '"npu_path": expected a path'),
        (
            {"npu_path": ".", "bench_path": ".", "is_print_compare_log": "no"},
            InvalidArgument,
            'is_print_compare_log": expected true or false, found "no"',
        ),
        (
            {"npu_path": ".", "bench_path": ".", "stack_path": []},
            InvalidArgument,
            r'"stack_path": expected a path, found \[\]',
        ),
    ],
)
def test_wrong_compare_files(tmp_path: Path, content: Any, kind: type[Error], message: str) -> None:
    path = compare_file(tmp_path, content)
    if content == "\xff":
        Path(path).write_bytes(b"\xff")
    with pytest.raises(kind, match=message) as caught:
        read_compare_file(path)
    assert path in str(caught.value)


def test_a_compare_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(IoError, match=r"cannot open .*No such file"):
        read_compare_file(str(tmp_path / "compare.json"))


def test_which_stacks_are_shown(tmp_path: Path) -> None:
    dump = write_dump(tmp_path, DATA)
    files = find(dump, dump).pairs[0]
    assert stack_path(files, Paths(dump, dump), stack_mode=True) is None
    beside, named = tmp_path / "stack.json", tmp_path / "named.json"
    beside.write_text("{}")
    assert stack_path(files, Paths(dump, dump), stack_mode=False) == beside
    assert stack_path(files, Paths(dump, dump, named), stack_mode=False) is None
    assert stack_path(files, Paths(dump, dump, named), stack_mode=True) == named


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "expected names of items"),
        ("a: [1]", '"a": expected the name of an item, found a list'),
        ("- a", "expected a YAML mapping"),
    ],
)
def test_wrong_data_mappings(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=message):
        read_data_mapping(str(path))
