# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe graph over damaged and malicious files, full disks, and ends at any moment: one error that names
the file, and no file of graphs that is not whole.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from graph_support import CONSTRUCT, FILES, LINEAR, call, records, result_in, select, write_rank
from msprobe.cli import main


def fails(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line of the error of a run that must fail; there is no result then."""
    out = Path(str(words[-1]))
    assert main(["graph", *map(str, words[:-1]), "-o", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("msprobe graph: error: ")
    assert captured.err.count("\n") == 1
    if out.is_dir():
        assert list(out.iterdir()) == []
    return captured.err


# ---- files of a dump


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    golden, target = write_rank(tmp_path / "golden"), write_rank(tmp_path / "target")
    whole = (target / name).read_bytes()
    for length in sorted({1, 7, *random.Random(3).sample(range(1, len(whole) - 1), 12)}):
        (target / name).write_bytes(whole[:length])
        assert str(target / name) in fails(capsys, target, tmp_path / "out")
        assert str(target / name) in fails(capsys, golden, target, tmp_path / "out")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"3", b'"x"', b"\xff\xfe\x00", b"[" * 200_000])
def test_a_file_of_another_kind_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    target = write_rank(tmp_path / "target")
    (target / name).write_bytes(content)
    assert str(target / name) in fails(capsys, target, tmp_path / "out")


@pytest.mark.parametrize("missing", [None, "folder"])
def test_no_dump_json_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str | None
) -> None:
    target = write_rank(tmp_path / "run/step0/rank0")
    (target / "dump.json").unlink()
    if missing == "folder":
        (target / "dump.json").mkdir()
    assert str(target) in fails(capsys, tmp_path / "run", tmp_path / "out")


@pytest.mark.parametrize(
    ("construct", "problem"),
    [
        ({"a": "b", "b": "a"}, "expected a tree"),
        ({"a": "b", "b": "c", "c": "d", "d": "b"}, "expected a tree"),
        ({f"m{i}": f"m{i + 1}" for i in range(100_000)}, "more than 2000 parents"),
        ({"a": 3}, '"a"'),
        ({"a": {"b": "c"}}, '"a"'),
        ({"a": [3, 1]}, '"a"'),
        ({"a": [["b"], 1]}, '"a"'),
        (
            {"a": None, "megatron_micro_step_number": "x"},
            '"megatron_micro_step_number": expected a whole number',
        ),
        ({"a": None, "megatron_micro_step_number": 1 << 40}, "megatron_micro_step_number"),
    ],
)
def test_a_hierarchy_that_is_none_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], construct: dict[str, Any], problem: str
) -> None:
    target = write_rank(tmp_path / "target", construct=construct)
    error = fails(capsys, target, tmp_path / "out")
    assert str(target / "construct.json") in error
    assert problem in error


def test_2000_levels_are_a_graph(tmp_path: Path) -> None:
    deep = {f"Module.m{i}.M.forward.0": f"Module.m{i + 1}.M.forward.0" for i in range(1999)}
    target = write_rank(tmp_path / "a", construct={**deep, "Module.m1999.M.forward.0": None})
    assert main(["graph", str(target), str(target), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    file = result_in(tmp_path / "out", "compare")
    link = select(file, "SELECT matched_node_link FROM tb_nodes WHERE node_order = 0 LIMIT 1")
    assert len(json.loads(link[0][0])) == 2001


NAMES = (
    "Module.it's.A.forward.0",
    'Module."quoted".A.forward.0',
    "Module.two\nlines\ttab.A.forward.0",
    "Module.../../../etc/passwd.A.forward.0",
    "/etc/passwd",
    "..",
    ".",
    "Module.模型🙂.A.forward.0",
    "Module.\u202egnp.A.forward.0",
    "Module.\0.A.forward.0",
    "Module.\x1b[31mred.A.forward.0",
    "Module.'); DROP TABLE tb_nodes; --.A.forward.0",
    "Module." + "x" * 20_000 + ".A.forward.0",
    "%s%n{0}",
)


def test_names_of_any_characters_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    construct: dict[str, str | None] = dict.fromkeys(NAMES)
    for index, name in enumerate(NAMES):
        construct[f"Torch.x.{index}.forward"] = name
    data = {name: call() for name in construct}
    golden = write_rank(tmp_path / "golden", data, construct)
    bad = {**data, **{name: call(0.9) for name in NAMES}}
    target = write_rank(tmp_path / "target", bad, construct, stacks={"0": [list(NAMES), list(NAMES)]})
    assert main(["graph", str(golden), str(target), "-o", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err
    file = result_in(tmp_path / "out", "compare")
    found = select(
        file, "SELECT node_name, matched_node_link, input_data, sub_nodes FROM tb_nodes WHERE id LIKE 'NPU%'"
    )
    by_name = {row[0]: row for row in found}
    assert {*NAMES, "DefaultModel"} <= {*by_name}
    for name in NAMES:
        _, link, inputs, children = by_name[name]
        assert json.loads(link) == ["DefaultModel", name]
        assert list(json.loads(inputs)) == [f"{name}.input.0"]
        assert len(json.loads(children)) == 1
    assert json.loads(select(file, "SELECT stack_info FROM tb_stack WHERE stack_info <> '[]'")[0][0])


@pytest.mark.parametrize("value", ['a"b\\\n', "None", "'", " ", "1.23456789", "\0", "é🙂"])
def test_texts_of_any_characters_leave_the_cells_json(tmp_path: Path, value: str) -> None:
    leaf = {"type": "str", "value": value}
    group = {"type": "torch.ProcessGroup", "group_ranks": value, "group_id": value}
    data = {**records(), LINEAR: call(input_kwargs={value or "k": leaf, "group": group, "text": leaf})}
    target = write_rank(tmp_path / "a", data)
    assert main(["graph", str(target), str(target), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    for inputs, outputs in select(
        result_in(tmp_path / "out", "compare"), "SELECT input_data, output_data FROM tb_nodes"
    ):
        assert isinstance(json.loads(inputs), dict)
        assert isinstance(json.loads(outputs), dict)


def test_numbers_beyond_the_range_of_a_double(tmp_path: Path) -> None:
    target = write_rank(tmp_path / "a")
    text = (target / "dump.json").read_text()
    for number in ("1.7976931348623157e308", "-5e-324", "NaN", "-Infinity", "123456789" * 30):
        (target / "dump.json").write_text(text.replace('"Max": 1.0', f'"Max": {number}'))
        out = tmp_path / number[:12]
        assert main(["graph", str(target), str(target), "-o", str(out), "--quiet"]) in (0, 1)
        cells = select(
            result_in(out, "compare"), f"SELECT input_data FROM tb_nodes WHERE node_name = '{LINEAR}'"
        )
        json.loads(cells[0][0])


# ---- layer mapping


@pytest.mark.parametrize(
    "content",
    [
        "- a",
        "3",
        "Block: mlp",
        "Block: [a]",
        "Block: {mlp: 3}",
        "Block: {mlp: {a: b}}",
        "Block: {'a..b': c}",
        "Block: {'': c}",
        "TopLayer: {a: b}\nCell: {a: c}",
        "Block: {a: b",
        "a: &a [*a]",
        "\0",
        "x: " + "[" * 5000,
    ],
)
def test_a_wrong_mapping_is_an_error_that_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    target = write_rank(tmp_path / "a")
    path = tmp_path / "map.yaml"
    path.write_text(content)
    error = fails(capsys, target, target, "-lm", path, tmp_path / "out")
    assert str(path) in error


# ---- the output folder


def test_an_output_that_is_a_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = write_rank(tmp_path / "a")
    (tmp_path / "out").write_text("mine")
    assert str(tmp_path / "out") in fails(capsys, target, tmp_path / "out")
    assert str(tmp_path / "out") in fails(capsys, target, target, tmp_path / "out")
    assert "out/below" in fails(capsys, target, tmp_path / "out/below")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_output_that_takes_nothing_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = write_rank(tmp_path / "a")
    (tmp_path / "out").mkdir(mode=0o500)
    assert str(tmp_path / "out") in fails(capsys, target, tmp_path / "out")


LIMITED = """
import resource, signal, sys
from msprobe.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(main(["graph", *sys.argv[2:]]))
"""


def large_rank(folder: Path, calls: int = 4000) -> Path:
    construct: dict[str, str | None] = {}
    for index in range(calls):
        construct[f"Torch.x.{index}.forward"] = f"Module.m{index // 20}.M.forward.0"
    construct.update({parent: None for parent in [*construct.values()] if parent is not None})
    return write_rank(folder, {name: call() for name in construct}, construct)


@pytest.mark.parametrize("limit", [1000, 50_000, 2_000_000, 9_000_000])
def test_a_full_disk_leaves_nothing(tmp_path: Path, limit: int) -> None:
    target = large_rank(tmp_path / "a")
    out = tmp_path / "out"
    words = [sys.executable, "-c", LIMITED, str(limit), str(target), str(target), "-o", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert ".vis.db" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()


# ---- ends at any moment


def start(target: Path, out: Path) -> subprocess.Popen[bytes]:
    """The command in a process of its own, once it has begun: an interpreter that a signal ends
    while it is still starting has an exit status of its own."""
    code = "import sys; from msprobe.cli import main; print(flush=True); sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "graph", str(target), str(target), "-o", str(out), "--quiet"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    return process


def is_whole(file: Path) -> bool:
    return select(file, "PRAGMA integrity_check") == [("ok",)] and select(
        file, "SELECT count(*) FROM tb_config"
    ) == [(1,)]


@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_leaves_a_whole_file_or_none(tmp_path: Path, ended_by: signal.Signals) -> None:
    target = large_rank(tmp_path / "a")
    with start(target, tmp_path / "whole") as process:
        begin = time.monotonic()
        assert process.communicate() == (b"", b"")
        assert process.returncode == 0
    seconds = time.monotonic() - begin
    delays = random.Random(5)
    ended = 0
    for index in range(8):
        out = tmp_path / f"out{index}"
        with start(target, out) as process:
            # Early once: the first run may have been slower than all others.
            time.sleep((0.1 if index == 0 else delays.uniform(0.2, 1.0)) * seconds)
            process.send_signal(ended_by)
            _, error = process.communicate()
        files = list(out.glob("*.vis.db"))
        if process.returncode == 0:
            assert len(files) == 1
        else:
            ended += 1
            assert process.returncode in (-ended_by, 130), error.decode()
            if ended_by is signal.SIGINT and out.exists():
                assert [path for path in out.iterdir() if path not in files] == [] or files
        assert b"Fatal" not in error
        assert all(is_whole(file) for file in files)
    assert ended > 0


def test_what_a_killed_run_left_is_not_in_the_way(tmp_path: Path) -> None:
    target = write_rank(tmp_path / "a")
    out = tmp_path / "out"
    out.mkdir()
    for moment in range(3):
        name = time.strftime("build_%Y%m%d%H%M%S.vis.db", time.localtime(time.time() + moment))
        (out / f".{name}.tmp").write_bytes(b"half")
    assert main(["graph", str(target), "-o", str(out), "--quiet"]) == 0
    assert is_whole(result_in(out, "build"))


# ---- records that repeat


def test_of_records_of_one_name_the_last_counts(tmp_path: Path) -> None:
    target = write_rank(tmp_path / "a")
    name = json.dumps("Torch.relu.0.forward")
    text = (target / "dump.json").read_text()
    twice = text.replace(f"{name}: {{", f'{name}: {json.dumps(call(0.25))}, "other": {{}}, {name}: {{', 1)
    (target / "dump.json").write_text(twice)
    assert main(["graph", str(target), "-o", str(tmp_path / "out"), "--quiet"]) == 0
    rows = select(
        result_in(tmp_path / "out", "build"),
        "SELECT output_data FROM tb_nodes WHERE node_name = 'Torch.relu.0.forward'",
    )
    assert len(rows) == 1
    assert json.loads(rows[0][0])["Torch.relu.0.forward.output.0"]["Mean"] == "0.1"
    assert (
        len(CONSTRUCT) + 2
        == select(result_in(tmp_path / "out", "build"), "SELECT count(*) FROM tb_nodes")[0][0]
    )
