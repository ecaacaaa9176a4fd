# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe graph from the command line: spellings, exit codes, what is printed, what stands in the file."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from graph_support import (
    BLOCK,
    CONSTRUCT,
    FILES,
    LINEAR,
    call,
    records,
    result_in,
    rows_of,
    select,
    tensor,
    write_compare_json,
    write_rank,
)
from msprobe.cli import main

NODES = len(CONSTRUCT) + 2  # the root, and the collection of two calls


def run(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """golden, same; other is off in the relu and what follows."""
    write_rank(tmp_path / "golden")
    write_rank(tmp_path / "same")
    write_rank(tmp_path / "other", records(relu=0.9, Block=0.9))
    return tmp_path


# ---- spellings


@pytest.mark.parametrize(
    "words",
    [
        ["-f", "pytorch", "graph", "-i", "build.json", "-o", "out"],
        ["--framework", "pytorch", "graph", "--input_path", "build.json", "--output_path", "out", "-oc"],
        ["-f", "pytorch", "graph", "-i", "build.json", "-o", "out", "-cs", "-f"],
        ["graph", "-i", "build.json", "-o", "out"],
        ["graph_visualize", "-tp", "other", "-o", "out"],
        ["graph_visualize", "--target_path", "other", "-o", "out", "-fm", "-tensor_log", "--file_type", "db"],
        ["graph", "other", "-o", "out"],
        ["graph", "other/dump.json", "-o", "out"],
    ],
)
def test_spellings_of_a_graph_alone(runs: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(runs)
    write_compare_json(runs / "build.json", Path("other"))
    assert run(*words) == 0
    file = result_in(runs / "out", "build")
    assert re.fullmatch(r"build_\d{14}\.vis\.db", file.name)
    assert select(file, "SELECT count(*) FROM tb_nodes") == [(NODES,)]
    assert sorted(path.name for path in (runs / "out").iterdir()) == [file.name]
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "words",
    [
        ["-f", "pytorch", "graph", "-i", "compare.json", "-o", "out"],
        ["graph", "-i", "compare.json", "-o", "out", "-f"],
        ["graph", "-i", "compare.json", "-o", "out", "-lm"],
        ["graph", "-i", "compare.json", "-o", "out", "-lm", "map.yaml", "--overflow_check"],
        ["graph_visualize", "-tp", "other", "-gp", "golden", "-o", "out"],
        ["graph_visualize", "--golden_path", "golden", "-tp", "other", "-o", "out", "--fuzzy_match"],
        ["graph", "golden", "other", "-o", "out"],
        ["graph", "golden/dump.json", "other", "-o", "out", "--threads", "2"],
    ],
)
def test_spellings_of_two_runs(runs: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.chdir(runs)
    write_compare_json(runs / "compare.json", Path("other"), Path("golden"))
    (runs / "map.yaml").write_text("TopLayer:\n  block: block\n")
    assert run(*words) == 1
    file = result_in(runs / "out", "compare")
    assert select(file, "SELECT data_source, count(*) FROM tb_nodes GROUP BY 1") == [
        ("Bench", NODES),
        ("NPU", NODES),
    ]
    assert select(file, "SELECT value FROM msprobe_info WHERE key IN ('golden', 'target') ORDER BY key") == [
        ("golden",),
        ("other",),
    ]


def test_lines_of_progress_for_a_program(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("graph_visualize", "-tp", runs / "same", "-o", runs / "out", "-progress_log", "--quiet") == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("PROGRESS: ") for line in lines)
    first, last = (json.loads(line.removeprefix("PROGRESS: ")) for line in (lines[0], lines[-1]))
    assert first == {"current_progress": 0, "process_running": True, "error_msg": []}
    assert last == {"current_progress": 100, "process_running": False, "error_msg": []}
    (runs / "same/construct.json").write_text('{"a": "b", "b": "a"}')
    assert run("graph", runs / "same", "-o", runs / "out2", "-progress_log") == 2
    last = json.loads(capsys.readouterr().out.splitlines()[-1].removeprefix("PROGRESS: "))
    assert last["process_running"] is False
    assert "construct.json" in last["error_msg"][0]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "expected [REFERENCE] TARGET"),
        (["same", "-i", "compare.json"], "expected [REFERENCE] TARGET"),
        (["golden", "same", "other"], "expected [REFERENCE] TARGET"),
        (["-gp", "golden"], "expected [REFERENCE] TARGET"),
        (["-gp", "golden", "-i", "compare.json"], "expected -tp TARGET"),
        (["absent"], "does not exist"),
        (["-i", "absent.json"], "does not exist"),
        (["same", "-lm", "absent.yaml"], "does not exist"),
        (["same", "--file_type", "json"], "written as .vis.db only"),
        (["same", "--tp", "2"], "expected --rank_size, --tp and --pp together, found --tp only"),
        (["same", "--tp", "2", "2", "--rank_size", "2", "--pp", "1"], "--tp: expected 1 number, found 2"),
        (["same", "--tp", "0"], "expected a whole number from 1 on"),
        (["same", "--tp", "x"], "expected a whole number from 1 on"),
        (["same", "--threads", "-1"], "--threads"),
        (["same", "--json", "--quiet"], "not allowed"),
        (["same", "--nothing"], "--nothing"),
    ],
)
def test_a_wrong_command_line_is_one_error(
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(runs)
    write_compare_json(runs / "compare.json", Path("other"), Path("golden"))
    with pytest.raises(SystemExit) as ended:
        sys.exit(run("graph", *words, "-o", "out"))
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err
    assert not (runs / "out").exists()


def test_the_command_runs_as_a_program(runs: Path) -> None:
    words = ["graph", runs / "golden", runs / "other", "-o", runs / "out"]
    command = [sys.executable, "-m", "msprobe", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "Torch.relu.0.forward" in done.stdout
    assert str(result_in(runs / "out", "compare")) in done.stdout


# ---- exit codes and what is printed


def test_runs_that_agree_give_0(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("graph", runs / "golden", runs / "same", "-o", runs / "out") == 0
    out = capsys.readouterr().out
    assert out.startswith("The runs are equal")
    assert f"1 graph, {NODES} nodes: 0 without a match, 0 with a large difference" in out


def test_the_verdict_is_that_of_compare(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("graph", runs / "golden", runs / "other", "-o", runs / "out", "--json") == 1
    printed = json.loads(capsys.readouterr().out)
    written = json.loads((runs / "out/verdict.json").read_text())
    assert printed == written
    assert written["status"] == "differ"
    assert run("compare", runs / "golden", runs / "other", "-o", runs / "table", "--quiet") == 1
    of_compare = json.loads((runs / "table/verdict.json").read_text())
    assert written["culprits"] == of_compare["culprits"]
    assert written["culprits"]
    findings = select(
        result_in(runs / "out", "compare"),
        "SELECT step, rank, node, sentence FROM msprobe_findings ORDER BY number",
    )
    assert findings[0][:3] == (0, 0, "Torch.relu.0.forward")
    assert findings[0][3]


def test_json_of_a_graph_alone(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("graph", runs / "same", "-o", runs / "out", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["file"] == str(result_in(runs / "out", "build"))
    assert (printed["graphs"], printed["nodes"]) == (1, NODES)
    assert not (runs / "out/verdict.json").exists()


def test_the_root_has_the_class_of_the_model(runs: Path) -> None:
    """Where the training state says it; DefaultModel is its name in the file."""
    for side in ("golden", "other"):
        for folder in (path.parent for path in (runs / side).rglob("dump.json")):
            (folder / "diagnosis.json").write_text('{"modules": {"": {"class": "models.gpt.GPT"}}}')
    assert run("graph", runs / "golden", runs / "other", "-o", runs / "out", "--quiet") == 1
    named = "SELECT value FROM msprobe_info WHERE key LIKE '%_model' ORDER BY key"
    assert select(result_in(runs / "out", "compare"), named) == [("GPT",), ("GPT",)]


def test_quiet_prints_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("graph", runs / "golden", runs / "other", "-o", runs / "out", "--quiet") == 1
    assert capsys.readouterr() == ("", "")


def test_structures_differ_when_a_node_is_missing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rank(runs / "golden", task="structure")
    write_rank(runs / "same", task="structure")
    assert run("graph", runs / "golden", runs / "same", "-o", runs / "out") == 0
    assert "The runs agree" in capsys.readouterr().out
    less = {name: parent for name, parent in CONSTRUCT.items() if name != "Torch.relu.0.forward"}
    write_rank(runs / "same", construct=less, task="structure")
    assert run("graph", runs / "golden", runs / "same", "-o", runs / "out2") == 1
    assert "0 nodes are only in the target, 1 only in the reference" in capsys.readouterr().out
    assert select(result_in(runs / "out2", "compare"), "SELECT task FROM tb_config") == [("structure",)]


def test_dumps_of_different_tasks_are_not_compared(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rank(runs / "same", task="tensor")
    assert run("graph", runs / "golden", runs / "same", "-o", runs / "out") == 2
    assert "task" in capsys.readouterr().err
    assert not list((runs / "out").glob("*")) if (runs / "out").exists() else True


def test_of_mindstudio_probe_an_earlier_result_stays(runs: Path) -> None:
    for _ in range(3):
        assert run("graph", "-tp", runs / "same", "-o", runs / "out", "--quiet") == 0
    assert len(list((runs / "out").glob("build_*.vis.db"))) == 3


def test_the_dumps_are_only_read(runs: Path) -> None:
    before = {path: path.read_bytes() for path in runs.rglob("*.json")}
    for path in before:
        path.chmod(0o440)
    for folder in ("golden", "other"):
        (runs / folder).chmod(0o550)
    try:
        assert run("graph", runs / "golden", runs / "other", "-o", runs / "out", "--quiet") == 1
        assert {path: path.read_bytes() for path in before} == before
        assert sorted(path.name for path in (runs / "golden").iterdir()) == sorted(FILES)
    finally:
        for folder in ("golden", "other"):
            (runs / folder).chmod(0o750)


# ---- without stacks, without a hierarchy


def test_without_stacks_the_graph_is_the_same_and_says_so(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "same/stack.json").unlink()
    assert run("graph", runs / "same", "-o", runs / "out") == 0
    assert "no stack.json" in capsys.readouterr().err
    file = result_in(runs / "out", "build")
    assert select(file, "SELECT DISTINCT stack_info FROM tb_stack") == [("[]",)]
    assert select(file, "SELECT count(*) FROM tb_nodes") == [(NODES,)]


@pytest.mark.parametrize("content", [None, "{}"])
def test_without_a_hierarchy_calls_are_grouped_by_their_callers(runs: Path, content: str | None) -> None:
    stacks = {
        "0": [
            ["Torch.relu.0.forward", "Torch.mean.0.forward"],
            [
                f"File model.py, line {line}, in {function}, \n x()"
                for line, function in ((3, "inner"), (9, "outer"))
            ],
        ]
    }
    calls = {name: call() for name in CONSTRUCT if not name.startswith("Module")}
    write_rank(runs / "same", calls, {}, stacks=stacks)
    if content is None:
        (runs / "same/construct.json").unlink()
    assert run("graph", runs / "same", "-o", runs / "out", "--quiet") == 0
    names = select(
        result_in(runs / "out", "build"), "SELECT node_name, up_node FROM tb_nodes ORDER BY node_order"
    )
    assert ("Stack.inner.0", "Stack.outer.0") in names
    assert ("Torch.relu.0.forward", "Stack.inner.0") in names
    assert ("Torch.sum.0.forward", "DefaultModel") in names


# ---- tables of our own


def test_our_tables_say_what_the_columns_of_the_existing_tool_hide(runs: Path) -> None:
    construct = {**CONSTRUCT, "Torch.new.0.forward": None}
    weights = {"weight": tensor(0.5)}
    data = {**records(), "Torch.new.0.forward": call(), LINEAR: call(parameters={"weight": tensor()})}
    write_rank(runs / "golden", {**records(), LINEAR: call(parameters=weights)})
    write_rank(runs / "other", data, construct)
    assert run("graph", runs / "golden", runs / "other", "-o", runs / "out", "--quiet") == 1
    with rows_of(result_in(runs / "out", "compare")) as connection:
        own = {row["id"]: dict(row) for row in connection.execute("SELECT * FROM msprobe_nodes")}
        index = dict(connection.execute("SELECT id, precision_index FROM tb_nodes").fetchall())
    linear, block, root = own[f"NPU_0_0_{LINEAR}"], own[f"NPU_0_0_{BLOCK}"], own["NPU_0_0_DefaultModel"]
    assert index[f"NPU_0_0_{LINEAR}"] == 0  # of outputs only
    assert linear["weight_ulps"] > 1000
    assert (linear["counterpart"], linear["how"], linear["reason"]) == (LINEAR, "exact", None)
    assert block["worst_node"] == LINEAR
    assert block["worst_ulps"] == linear["weight_ulps"]
    assert (root["nodes"], root["unmatched"]) == (NODES + 1, 1)
    assert json.loads(root["colours"])[0] == len(CONSTRUCT) + 1  # all matched nodes that hold data
    new = own["NPU_0_0_Torch.new.0.forward"]
    assert (new["counterpart"], new["how"]) == (None, None)
    assert new["reason"] == "the reference has no node of this name"
    assert own["Bench_0_0_DefaultModel"]["unmatched"] == 0


def test_overflow_levels_reach_the_modules_around(runs: Path) -> None:
    bad = {**records(), "Torch.relu.0.forward": call(float("nan"))}
    write_rank(runs / "other", bad)
    assert run("graph", runs / "other", "-o", runs / "out", "-oc", "--quiet") == 0
    file = result_in(runs / "out", "build")
    assert select(file, "SELECT node_name FROM tb_nodes WHERE overflow_level = 'critical'") == [
        ("Torch.relu.0.forward",)
    ]
    assert select(file, "SELECT id FROM msprobe_nodes WHERE overflow = 'critical' ORDER BY id") == [
        ("NPU_0_0_DefaultModel",),
        (f"NPU_0_0_{BLOCK}",),
        ("NPU_0_0_Torch.relu.0.forward",),
    ]
    assert select(file, "SELECT overflow_check FROM tb_config") == [(1,)]


def test_an_infinity_on_both_sides_is_no_difference(tmp_path: Path) -> None:
    """As a mask of attention writes it; on one side alone it is the worst there is."""

    def masked(lowest: float) -> dict[str, object]:
        data = records()
        data["Torch.relu.0.forward"]["output"] = [{**tensor(), "Min": lowest}]
        return data

    query = (
        "SELECT precision_index FROM tb_nodes WHERE data_source='NPU' AND node_name='Torch.relu.0.forward'"
    )
    write_rank(tmp_path / "target", masked(-math.inf))
    for name, lowest, index in (("same", -math.inf, 0.0), ("finite", -1.0, 1.0)):
        write_rank(tmp_path / name, masked(lowest))
        run("graph", tmp_path / name, tmp_path / "target", "-o", tmp_path / f"out_{name}", "--quiet")
        found = select(result_in(tmp_path / f"out_{name}", "compare"), query)
        assert float(found[0][0]) == index, name


def test_a_culprit_of_the_reference_alone_is_a_finding_of_its_side(runs: Path) -> None:
    construct = {name: parent for name, parent in CONSTRUCT.items() if name != "Torch.relu.0.forward"}
    data = records(Block=0.9, mean=0.9, sum=0.9)
    del data["Torch.relu.0.forward"]
    write_rank(runs / "without", data, construct)
    assert run("graph", runs / "golden", runs / "without", "-o", runs / "out", "--quiet") == 1
    query = "SELECT node, side, sentence FROM msprobe_findings ORDER BY number"
    node, side, sentence = select(result_in(runs / "out", "compare"), query)[0]
    assert (node, side) == ("Torch.relu.0.forward", 1)
    assert sentence.startswith("only the reference calls relu in block")
