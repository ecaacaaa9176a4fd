# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which folders graphs are made of, and what may stand in compare.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from graph_support import records, result_in, select, write_compare_json, write_rank
from msprobe import FormatError, InvalidArgument
from msprobe.cli import main
from msprobe.graph.inputs import Layout, Paths, find_units, read_compare_file
from msprobe.native import NothingToCompare

LAYOUT = {"rank_size": 2, "tp": 2, "pp": 1}
NO_SIZES: tuple[Any, ...] = ("2", 1.5, True, None, 0, -1, 1 << 40, [2], {})


def write_run(folder: Path, steps: list[int], ranks: list[str]) -> Path:
    for step in steps:
        for rank in ranks:
            write_rank(folder / f"step{step}" / rank)
    return folder


def places(paths: Paths) -> list[tuple[int, int]]:
    return [(unit.step, unit.target[0][0]) for unit in find_units(paths).units]


# ---- folders


def test_steps_and_ranks_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [10, 2], ["rank0", "rank10", "rank2"])
    assert places(Paths(run)) == [(step, rank) for step in (2, 10) for rank in (0, 2, 10)]
    assert places(Paths(run / "step2")) == [(0, 0), (0, 2), (0, 10)]
    assert places(Paths(run / "step2/rank10")) == [(0, 0)]
    assert places(Paths(run / "step2/rank10/dump.json")) == [(0, 0)]


def test_a_rank_without_a_number_is_rank_0(tmp_path: Path) -> None:
    assert places(Paths(write_run(tmp_path / "run", [0], ["rank"]))) == [(0, 0)]
    write_rank(tmp_path / "run/step0/rank0")
    with pytest.raises(InvalidArgument, match="one folder for each number, found rank"):
        find_units(Paths(tmp_path / "run"))


def test_lists_in_the_file_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [10, 2], ["rank10", "rank2"])
    assert main(["graph", str(run), str(run), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    file = result_in(tmp_path / "out", "compare")
    assert select(file, "SELECT rank_list, step_list, id FROM tb_config") == [("[2, 10]", "[2, 10]", "1")]
    assert len(select(file, "SELECT DISTINCT step, rank, data_source FROM tb_nodes")) == 8


def test_what_only_one_run_has_is_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = write_run(tmp_path / "golden", [0, 1], ["rank0", "rank1"])
    target = write_run(tmp_path / "target", [0, 2], ["rank0", "rank3"])
    inputs = find_units(Paths(target, golden))
    assert [(unit.step, unit.target[0][0]) for unit in inputs.units] == [(0, 0)]
    assert [f"{one.what}: {one.reason}" for one in inputs.left_out] == [
        "step 1: only in the reference",
        "step 2: only in the target",
        "step 0, rank 1: only in the reference",
        "step 0, rank 3: only in the target",
    ]
    assert main(["graph", str(golden), str(target), "-o", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().out
    assert "not all could be: step 1 (only in" in said


def test_runs_with_nothing_in_common_are_an_error(tmp_path: Path) -> None:
    golden = write_run(tmp_path / "golden", [0], ["rank0"])
    target = write_run(tmp_path / "target", [0], ["rank1"])
    with pytest.raises(NothingToCompare, match="nothing in common"):
        find_units(Paths(target, golden))
    assert main(["graph", str(golden), str(target), "-o", str(tmp_path / "out")]) == 2
    assert not list(tmp_path.rglob("*.vis.db"))


def test_both_runs_are_of_one_kind(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [0], ["rank0"])
    with pytest.raises(InvalidArgument, match="two paths of the same kind"):
        find_units(Paths(run, run / "step0"))


@pytest.mark.parametrize("names", [[], ["notes.txt"], ["model0/dump.json"]])
def test_a_folder_without_a_dump_is_an_error(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text("{}")
    (tmp_path / "run").mkdir(exist_ok=True)
    with pytest.raises(InvalidArgument, match=r"expected dump\.json or debug\.json, or folders"):
        find_units(Paths(tmp_path / "run"))


# ---- compare.json


def test_all_keys_are_read(tmp_path: Path) -> None:
    target, golden = write_rank(tmp_path / "a"), write_rank(tmp_path / "b")
    merge = {"npu": {**LAYOUT, "vpp": 1, "order": "tp-dp-pp"}, "bench": {"rank_size": 4, "tp": 2, "pp": 2}}
    path = write_compare_json(
        tmp_path / "c.json", target, golden, is_print_compare_log=False, parallel_merge=merge
    )
    assert read_compare_file(str(path)) == Paths(
        target,
        golden,
        True,
        Layout(rank_size=2, tp=2, pp=1, order="tp-dp-pp"),
        Layout(rank_size=4, tp=2, pp=2),
    )


@pytest.mark.parametrize("merge", [None, {}, {"npu": {}}, {"npu": None}, {"bench": LAYOUT}])
def test_an_empty_parallel_merge_is_none(tmp_path: Path, merge: Any) -> None:
    path = write_compare_json(tmp_path / "c.json", write_rank(tmp_path / "a"), parallel_merge=merge)
    assert read_compare_file(str(path)).target_layout is None


@pytest.mark.parametrize("bench", ["", None])
def test_an_empty_reference_is_none(tmp_path: Path, bench: str | None) -> None:
    path = write_compare_json(tmp_path / "c.json", write_rank(tmp_path / "a"), bench_path=bench)
    assert read_compare_file(str(path)).reference is None


def test_an_unknown_key_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_compare_json(tmp_path / "c.json", write_rank(tmp_path / "a"), npu_pth="x")
    with caplog.at_level("WARNING", "msprobe"):
        read_compare_file(str(path))
    assert '"npu_pth" is ignored' in caplog.text


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ({"npu_path": 3}, "npu_path"),
        ({"npu_path": ["a"]}, "npu_path"),
        ({"npu_path": ""}, "npu_path"),
        ({"npu_path": "a\0b"}, "npu_path"),
        ({"npu_path": "nowhere"}, "npu_path"),
        ({"npu_path": None}, "npu_path"),
        ({"bench_path": "."}, "npu_path"),
        ({"bench_path": 7}, "bench_path"),
        ({"bench_path": "nowhere"}, "bench_path"),
        ({"is_print_compare_log": "yes"}, "is_print_compare_log"),
        ({"is_print_compare_log": 1}, "is_print_compare_log"),
        ({"parallel_merge": [1]}, "parallel_merge"),
        ({"parallel_merge": "npu"}, "parallel_merge"),
        ({"parallel_merge": {"npu": [1]}}, '"npu"'),
        ({"parallel_merge": {"npu": "tp"}}, '"npu"'),
        ({"bench_path": ".", "parallel_merge": {"npu": LAYOUT}}, '"bench"'),
        ({"bench_path": ".", "parallel_merge": {"bench": LAYOUT}}, '"npu"'),
        ({"parallel_merge": {"npu": {"rank_size": 2, "tp": 2}}}, '"pp"'),
        ({"parallel_merge": {"npu": {**LAYOUT, "order": 3}}}, '"order"'),
        ({"parallel_merge": {"npu": {**LAYOUT, "order": None}}}, '"order"'),
        ({"parallel_merge": {"npu": {**LAYOUT, "zz": 1}}}, '"zz"'),
        *(
            ({"parallel_merge": {"npu": {**LAYOUT, key: value}}}, f'"{key}"')
            for key in ("rank_size", "tp", "pp", "vpp", "cp", "ep")
            for value in NO_SIZES
        ),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: dict[str, Any], key: str
) -> None:
    monkeypatch.chdir(write_rank(tmp_path / "a"))
    path = tmp_path / "c.json"
    complete = content if "npu_path" in content or key == "npu_path" else {"npu_path": ".", **content}
    path.write_text(json.dumps(complete))
    with pytest.raises(InvalidArgument) as caught:
        read_compare_file(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert key in str(caught.value)
    assert main(["graph", "-i", str(path), "-o", str(tmp_path / "out"), "--quiet"]) == 2
    assert not list(tmp_path.rglob("*.vis.db"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"npu_path"',
        b'{"npu_path": "."} x',
        b'{"npu_path": ".", "npu_path": "."}',
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * (2 << 20),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        read_compare_file(str(path))
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("layout", "problem"),
    [
        ({"rank_size": 3, "tp": 2, "pp": 1}, "rank_size"),
        ({"rank_size": 4, "tp": 2, "pp": 1}, "expected 4 folders rank{N}"),
        ({"rank_size": 2, "tp": 2, "pp": 2}, '"rank_size": found 2'),
        ({"rank_size": 2, "tp": 1, "pp": 3}, '"pp": found 3'),
        ({"rank_size": 2, "tp": 2, "pp": 1, "vpp": 2}, '"vpp"'),
        ({"rank_size": 2, "tp": 2, "pp": 1, "order": "tp_pp"}, '"order"'),
        ({"rank_size": 2, "tp": 2, "pp": 1, "order": "pp-dp"}, '"order"'),
    ],
)
def test_sizes_that_do_not_fit_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], layout: dict[str, Any], problem: str
) -> None:
    for rank in range(2):
        write_rank(tmp_path / f"run/rank{rank}")
    path = write_compare_json(tmp_path / "c.json", tmp_path / "run", parallel_merge={"npu": layout})
    assert main(["graph", "-i", str(path), "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert "rank{N}" in error or f'{path}: "parallel_merge": "npu": ' in error
    assert not list(tmp_path.rglob("*.vis.db"))


def test_sizes_on_the_command_line_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["graph", str(write_rank(tmp_path / "rank0")), "-o", str(tmp_path / "out"), "--pp", "1"]
    assert main([*words, "--rank_size", "3", "--tp", "2"]) == 2
    assert 'the command line: "tp": found 2' in capsys.readouterr().err


def test_sizes_may_stand_on_the_command_line(tmp_path: Path) -> None:
    for rank in range(2):
        write_rank(tmp_path / f"run/rank{rank}", records(linear=0.1 * (rank + 1)))
    sizes = ["--rank_size", "2", "--tp", "2", "--pp", "1", "--order", "tp-dp-pp"]
    words = ["graph", str(tmp_path / "run"), "-o", str(tmp_path / "out"), "--quiet"]
    assert main([*words, *sizes]) == 0
    file = result_in(tmp_path / "out", "build")
    assert select(file, "SELECT DISTINCT rank FROM tb_nodes") == [(0,)]
    notes = select(file, "SELECT count(*) FROM tb_nodes WHERE parallel_merge_info <> ''")
    assert notes[0][0] > 0
