# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe compare from the command line and from Python: forms, exit codes, files, and what goes wrong."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import openpyxl
import pytest
from compare_support import call, steps_of, tensor, write_dump, write_run
from msprobe import InvalidArgument
from msprobe.cli import main

GOOD = steps_of(3)
BAD = {**GOOD, "Torch.add.1.forward": call(2.0, result=400.0)}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """golden, same and other: one step, two ranks; `other` is off in rank 1."""
    write_run(tmp_path / "golden", ["rank0", "rank1"], [0], GOOD)
    write_run(tmp_path / "same", ["rank0", "rank1"], [0], GOOD)
    write_run(tmp_path / "other", ["rank0", "rank1"], [0], GOOD)
    write_dump(tmp_path / "other/step0/rank1", BAD)
    return tmp_path


def run(*arguments: object) -> int:
    return main([str(word) for word in arguments])


def names(folder: Path) -> list[str]:
    """Files below `folder`, without times."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return [name.replace("_" + name.rpartition("_")[2].partition(".")[0], "", 1) for name in found]


def dump(runs: Path, name: str, rank: int = 1) -> Path:
    return runs / name / f"step0/rank{rank}/dump.json"


# ---- forms


def test_direct_form_and_exit_codes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", runs / "golden", runs / "same", "-o", runs / "out") == 0
    assert capsys.readouterr().out.startswith("The runs are equal")
    assert run("compare", runs / "golden", runs / "other", "-o", runs / "out2") == 1
    assert "Torch.add.1.forward" in capsys.readouterr().out
    assert run("compare", dump(runs, "golden"), dump(runs, "other"), "-o", runs / "out3", "--quiet") == 1
    assert capsys.readouterr().out == ""


def test_null_statistics_are_na_in_a_row_without_counterpart(tmp_path: Path) -> None:
    """Those of tensors that hold nothing, or of which nothing was measured."""
    nothing = {**tensor(0.0), **dict.fromkeys(("Max", "Min", "Mean", "Norm"))}
    record = {"input_args": [], "input_kwargs": {}, "output": [nothing]}
    write_dump(tmp_path / "golden", {**GOOD, "Torch.empty.0.forward": record})
    both = {"Torch.empty.0.forward": record, "Torch.empty.1.forward": record}
    write_dump(tmp_path / "other", {**GOOD, **both})
    run("compare", tmp_path / "golden", tmp_path / "other", "-o", tmp_path / "out", "--quiet")
    sheet = openpyxl.load_workbook(next((tmp_path / "out").glob("*.xlsx")))["Sheet"]
    rows = {row[0]: row for row in sheet.iter_rows(values_only=True)}
    place = rows["NPU Name"].index("NPU max")
    assert rows["Torch.empty.0.forward.output.0"][place : place + 8] == ("None",) * 8
    assert rows["Torch.empty.1.forward.output.0"][place : place + 8] == ("N/A",) * 8


def test_golden_comes_first_and_target_is_the_npu_side(runs: Path) -> None:
    run("compare", dump(runs, "golden"), dump(runs, "other"), "-o", runs / "out", "--quiet")
    sheet = openpyxl.load_workbook(next((runs / "out").glob("*.xlsx")))["Sheet"]
    rows = {row[0].value: [cell.value for cell in row] for row in sheet.iter_rows()}
    header = rows["NPU Name"]
    row = rows["Torch.add.1.forward.output.0"]
    assert row[header.index("NPU max")] == 401
    assert row[header.index("Bench max")] == 5


def test_a_table_opens_with_the_verdict_and_begins_with_the_rows(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("compare", runs / "golden", runs / "other", "-o", runs / "out") == 1
    said = capsys.readouterr().out.splitlines()
    tables = list((runs / "out").rglob("*.xlsx"))
    assert tables
    for table in tables:
        book = openpyxl.load_workbook(table)
        assert book.sheetnames[0] == "Sheet"
        assert book["Sheet"]["A1"].value == "NPU Name"
        assert book.active is book["Verdict"]
        lines = [row[0] for row in book["Verdict"].iter_rows(values_only=True)]
        assert lines[0].startswith("First difference: step")
        assert lines == said[: len(lines)]


@pytest.mark.parametrize("prefix", [["-f", "pytorch", "compare"], ["compare"], ["compare", "-f", "pytorch"]])
def test_framework_is_not_fuzzy(runs: Path, prefix: list[str]) -> None:
    """-f before the command, or before the name of a framework, is the framework; alone after it, fuzzy."""
    renamed = {"Torch.add.7.forward": call(1.0)}
    golden = write_dump(runs / "g", renamed)
    target = write_dump(runs / "t", {"Torch.add.9.forward": call(1.0)})
    file = runs / "compare.json"
    file.write_text(json.dumps({"npu_path": str(target), "bench_path": str(golden)}))
    for more, how in (([], "aligned"), (["-f"], "fuzzy"), (["-fm"], "fuzzy")):
        out = runs / f"out{how}{len(prefix)}{more}"
        assert run(*prefix, "-i", file, "-o", out, *more, "--format", "csv", "--quiet") == 0
        with next(out.glob("*.csv")).open(encoding="utf-8-sig") as table:
            assert {row["Match"] for row in csv.DictReader(table)} == {how}


def test_newer_spellings(runs: Path) -> None:
    words = ("compare", "-gp", runs / "golden", "-tp", runs / "other", "-o", runs / "out", "--xlsx", "-da")
    assert run(*words, "--rank", "0", "--quiet") == 0
    assert run(*words, "--rank", "0-1", "--step", "0", "--quiet") == 1


def test_data_mapping(runs: Path) -> None:
    golden = write_dump(runs / "g", {"Torch.mul.0.forward": call(1.0)})
    target = write_dump(runs / "t", {"Torch.add.0.forward": call(1.0)})
    mapping = runs / "m.yaml"
    lines = [f"Torch.add.0.forward.{end}: Torch.mul.0.forward.{end}" for end in ("input.0", "output.0")]
    mapping.write_text("\n".join(lines))
    out = runs / "out"
    run("compare", golden, target, "-o", out, "-dm", mapping, "--format", "csv", "--quiet")
    with next(out.glob("*.csv")).open(encoding="utf-8-sig") as table:
        rows = [(row["Bench Name"], row["Match"]) for row in csv.DictReader(table)]
    assert rows == [("Torch.mul.0.forward.input.0", "mapped"), ("Torch.mul.0.forward.output.0", "mapped")]


# ---- results


def test_names_of_results(runs: Path) -> None:
    step = (runs / "golden/step0", runs / "other/step0")
    run("compare", *step, "-o", runs / "out", "--quiet", "--format", "junit", "--format", "sarif")
    assert names(runs / "out") == [
        "advisor_rank0.txt",
        "advisor_rank1.txt",
        "compare_result_rank0.xlsx",
        "compare_result_rank1.xlsx",
        "junit.xml",
        "report.html",
        "result.sarif",
        "verdict.json",
    ]
    for path in (runs / "out").iterdir():
        assert path.stat().st_mode & 0o777 == 0o640
    run("compare", runs / "golden", runs / "other", "-o", runs / "out2", "--quiet", "-c", "--format", "csv")
    assert names(runs / "out2") == [
        "report.html",
        "step0/compare_result_rank0.csv",
        "step0/compare_result_rank1.csv",
        "verdict.json",
    ]


def test_of_mindstudio_probe_an_earlier_result_stays(runs: Path) -> None:
    for _ in range(3):
        run("compare", "-gp", dump(runs, "golden"), "-tp", dump(runs, "other"), "-o", runs / "out", "--quiet")
    assert len(list((runs / "out").glob("compare_result_*.xlsx"))) == 3


def test_debug_files(runs: Path) -> None:
    for name, value in (("g", 1.0), ("t", 100.0)):
        write_dump(runs / name / "rank0", GOOD)
        write_dump(runs / name / "rank0", {"x.0.debug": tensor(value)}, name="debug.json")
    run("compare", runs / "g", runs / "t", "-o", runs / "out", "--quiet")
    assert names(runs / "out")[:4] == [
        "advisor_rank0.txt",
        "compare_result_rank0.xlsx",
        "debug_advisor_rank0.txt",
        "debug_compare_result_rank0.xlsx",
    ]


def test_json_on_the_screen_is_the_file(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("compare", runs / "golden", runs / "other", "-o", runs / "out", "--json")
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads((runs / "out/verdict.json").read_text())
    assert (shown["worst_rank"], shown["first_step"]) == (1, 0)


def test_a_rank_that_cannot_be_read_is_told_and_the_others_are_compared(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(runs, "same", 0).write_text("{")
    assert run("compare", runs / "golden", runs / "same", "-o", runs / "out") == 1
    shown = capsys.readouterr().out
    assert "step 0, rank 0" in shown
    assert "dump.json" in shown
    assert [name for name in names(runs / "out") if "compare_result" in name] == [
        "step0/compare_result_rank1.xlsx"
    ]


def test_dumps_without_anything_in_common_do_not_agree(runs: Path) -> None:
    target = write_dump(runs / "t", {"Torch.sub.0.forward": call(1.0)})
    assert run("compare", dump(runs, "golden"), target, "-o", runs / "out", "--quiet") == 1
    empty = write_dump(runs / "e", {})
    assert run("compare", dump(runs, "golden"), empty, "-o", runs / "out2", "--quiet") == 1
    assert not list((runs / "out2").glob("*.xlsx"))


# ---- errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected REFERENCE TARGET"),
        (["a"], "expected REFERENCE TARGET"),
        (["a", "b", "c"], "expected REFERENCE TARGET"),
        (["-gp", "a"], "expected REFERENCE TARGET"),
        (["a", "b", "-i", "c"], "expected REFERENCE TARGET"),
        (["/no", "/no2"], "/no does not exist"),
        (["-i", "/no"], "/no does not exist"),
        ([".", ".", "-dm", "/no"], "/no does not exist"),
        ([".", ".", "--noise", ".", "/no"], "/no does not exist"),
        ([".", ".", "-cm", "-am"], "expected one of -cm and -am"),
        ([".", ".", "-am", "/no"], "/no does not exist"),
        ([".", ".", "--consistent_check"], "--consistent_check: dumps of training and of inference"),
        ([".", ".", "--backend", "fsdp"], "--backend: dumps of training and of inference"),
        ([".", ".", "-f", "-dm", "."], "expected one of -f and -dm"),
        ([".", ".", "--format", "csv", "--xlsx"], "expected one of the tables xlsx and csv"),
        ([".", ".", "--format", "pdf"], "pdf"),
        ([".", ".", "--rank", "1-x"], "expected numbers such as 0,2,8-15"),
        ([".", ".", "--rank", "3-1"], "expected numbers such as 0,2,8-15"),
        ([".", ".", "--threads", "-1"], "expected a number from 0 to 1024"),
        ([".", ".", "--tolerance", "dtype"], "--tolerance"),
    ],
)
def test_wrong_command_lines(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("compare", *words)
    assert ended.value.code == 2
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1


def test_errors_of_both_files_leave_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = write_dump(runs / "b", GOOD)
    broken.write_text(broken.read_text()[:-40])
    assert run("compare", dump(runs, "golden"), broken, "-o", runs / "out") == 2
    assert "cut short" in capsys.readouterr().err
    other_task = write_dump(runs / "c", GOOD, task="tensor")
    assert run("compare", dump(runs, "golden"), other_task, "-o", runs / "out") == 2
    assert "their tasks are" in capsys.readouterr().err
    assert names(runs / "out") == []


def test_noise_has_the_form_of_the_reference(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compare", runs / "golden", runs / "same", "-o", runs / "out", "--quiet", "--force", "--noise")
    assert run(*words, runs / "same", runs / "golden") == 0
    content = json.loads((runs / "out/verdict.json").read_text())
    assert content["inputs"]["noise"] == [str(runs / "same"), str(runs / "golden")]
    assert run(*words, runs / "same/step0") == 2
    assert "as the reference it repeats" in capsys.readouterr().err


def test_layer_mapping_is_ignored(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", runs / "golden", runs / "same", "-o", runs / "out", "-lm", "x.yaml") == 0
    assert "-lm is ignored" in capsys.readouterr().err


def test_help_and_bad_paths_import_little() -> None:
    code = (
        "import sys; from msprobe.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = {'msprobe.native', 'msprobe._core', 'torch', 'numpy', 'json', 'concurrent'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    for words in (
        ["compare", "--help"],
        ["compare", "/no", "/no"],
        ["-f", "pytorch", "compare", "-i", "/no"],
    ):
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)


def test_interrupted_there_is_no_half_file(tmp_path: Path) -> None:
    data = steps_of(40_000)
    golden, target = write_dump(tmp_path / "a", data), write_dump(tmp_path / "b", data)
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-m", "msprobe", "compare", golden, target, "-o", out, "--quiet"], env=os.environ
    )
    while not out.exists():
        time.sleep(0.01)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) in (130, 0)  # 0: it was quicker
    for path in out.rglob("*.xlsx"):
        with zipfile.ZipFile(path) as package:
            assert package.testzip() is None
    assert not [path for path in out.rglob("*") if path.name.endswith(".tmp")]


# ---- Python


def test_compare_of_the_existing_tool(runs: Path) -> None:
    from msprobe.pytorch import compare

    paths = {"npu_json_path": str(dump(runs, "other")), "bench_json_path": str(dump(runs, "golden"))}
    result = compare({**paths, "is_print_compare_log": False}, runs / "out", suffix="_x", auto_analyze=False)
    assert not result.agree
    assert (result.worst_rank, result.first_step) == (1, 0)
    assert names(runs / "out") == ["compare_result_x.xlsx", "report.html", "verdict.json"]
    for wrong, message in (
        ({"npu_json_path": 3}, '"npu_json_path": expected a path, found 3'),
        ({**paths, "npu_path": "x"}, 'found the key "npu_path"'),
        ({**paths, "is_print_compare_log": 1}, '"is_print_compare_log": expected a bool'),
        ({**paths, "npu_json_path": str(runs)}, "expected"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            compare(wrong, runs / "out")


@pytest.mark.parametrize("name", ["stack_mode", "auto_analyze", "fuzzy_match"])
def test_a_switch_that_is_no_bool_is_named(name: str, runs: Path) -> None:
    from msprobe.pytorch import compare, compare_distributed

    paths = {"npu_json_path": "a", "bench_json_path": "b"}
    with pytest.raises(InvalidArgument, match=f"{name}: expected a bool, found 'x'"):
        compare(paths, runs / "out", **{name: "x"})
    with pytest.raises(InvalidArgument, match=f"{name}: expected a bool, found 'x'"):
        compare_distributed(runs, runs, runs / "out", **{name: "x"})


def test_compare_distributed_of_the_existing_tool(runs: Path) -> None:
    from msprobe.pytorch import compare_distributed

    result = compare_distributed(runs / "other/step0", runs / "golden/step0", runs / "out")
    assert [(pair.rank, pair.summary.failing) for pair in result.pairs] == [(0, 0), (1, 1)]
    assert result.verdict.culprits[0].name == "Torch.add.1.forward"
    assert compare_distributed(runs / "same", runs / "golden", runs / "out").agree


# ---- rounding


def test_bitwise_asks_for_equal_runs(runs: Path) -> None:
    off = {**GOOD, "Torch.add.1.forward": call(2.0, result=4.0 * (1 + 2.0**-23))}
    write_run(runs / "target", ["rank0", "rank1"], [0], off)
    words = ("compare", runs / "golden", runs / "target", "-o", runs / "out", "--quiet", "--force")
    assert run(*words) == 0
    assert json.loads((runs / "out/verdict.json").read_text())["status"] == "rounding"
    assert run(*words, "--bitwise") == 1
    same = ("compare", runs / "golden", runs / "same", "-o", runs / "out", "--force", "--bitwise")
    assert run(*same) == 0
    assert json.loads((runs / "out/verdict.json").read_text())["status"] == "equal"


def test_bitwise_sees_a_checksum_under_equal_statistics(tmp_path: Path) -> None:
    for name, checksum in (("golden", "00000001"), ("target", "00000002")):
        output = [tensor(4.0, md5=checksum)]
        write_dump(tmp_path / name, {"Torch.add.0.forward": {**call(2.0), "output": output}})
    words = ["compare", str(tmp_path / "golden"), str(tmp_path / "target"), "-o", str(tmp_path / "out")]
    assert main([*words, "--quiet", "--bitwise"]) == 1
    assert json.loads((tmp_path / "out/verdict.json").read_text())["status"] != "equal"


def test_checksums_alone_do_not_say_that_rounding_explains_a_difference(tmp_path: Path) -> None:
    for name, checksum in (("golden", "00000001"), ("target", "00000002")):
        output = [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "md5": checksum}]
        write_dump(tmp_path / name, {"Functional.gelu.0.forward": {**call(2.0), "output": output}})
    words = ["compare", str(tmp_path / "golden"), str(tmp_path / "target"), "-o", str(tmp_path / "out")]
    assert main([*words, "--quiet"]) == 1
    answer = json.loads((tmp_path / "out/verdict.json").read_text())
    assert answer["status"] == "incomplete"
    assert "nothing but checksums is recorded" in answer["sentence"]


def test_what_repeated_runs_show_is_noise(runs: Path) -> None:
    off = {**GOOD, "Torch.add.1.forward": call(2.0, result=4.004)}
    for name in ("target", "again"):
        write_run(runs / name, ["rank0", "rank1"], [0], off)
    words = ("compare", runs / "golden", runs / "target", "-o", runs / "out", "--quiet", "--force")
    assert run(*words) == 1
    assert run(*words, "--noise", runs / "same", runs / "again") == 0
    assert run(*words, "--noise", runs / "same") == 1


def test_what_a_call_is_known_to_amplify_is_no_culprit(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    off = {**GOOD, "Torch.add.1.forward": call(2.0, result=4.004)}
    write_run(runs / "target", ["rank0", "rank1"], [0], off)
    words = ("compare", runs / "golden", runs / "target", "-o", runs / "out", "--quiet", "--force")

    def known(name: str, amplification: object) -> Path:
        folder = runs / name / "perturb"  # as msprobe perturb leaves it in the folder of a run
        folder.mkdir(parents=True)
        content = {"format": 1, "tool": "perturb", "amplification": amplification, "expected_loss": []}
        (folder / "verdict.json").write_text(json.dumps(content))
        return runs / name

    assert run(*words) == 1
    assert run(*words, "--noise", known("far", {"Torch.add.1.forward": 1e5})) == 0
    assert run(*words, "--noise", known("near", {"Torch.add.1.forward": 20.0})) == 1
    assert run(*words, "--noise", known("another", {"Torch.add.0.forward": 1e5})) == 1
    assert run(*words, "--noise", known("healthy", {})) == 1
    capsys.readouterr()
    assert run(*words, "--noise", known("broken", 3)) == 2
    assert '"amplification": expected an object, found 3' in capsys.readouterr().err


def test_a_repeated_run_that_cannot_be_read_is_an_error(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(runs, "other").write_text("{")
    words = (
        "compare",
        runs / "golden",
        runs / "same",
        "-o",
        runs / "out",
        "--force",
        "--noise",
        runs / "other",
    )
    assert run(*words) == 2
    assert "other/step0/rank1/dump.json" in capsys.readouterr().err


def test_memory_that_was_never_written_is_not_judged(tmp_path: Path) -> None:
    """Torch.empty gives whatever was there before; filled in later, it is compared like everything else."""
    for name, garbage, filled in (("golden", 0.0, 3.0), ("target", 1e30, 3.0), ("other", 0.0, 4.0)):
        empty = {"input_args": [], "input_kwargs": {}, "output": [tensor(garbage)]}
        write_dump(
            tmp_path / name, {"Torch.empty.0.forward": empty, "Torch.add.0.forward": call(1.0, filled)}
        )
    words = ["compare", str(tmp_path / "golden")]
    assert main([*words, str(tmp_path / "target"), "-o", str(tmp_path / "a"), "--quiet"]) == 0
    assert main([*words, str(tmp_path / "other"), "-o", str(tmp_path / "b"), "--quiet"]) == 1


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_long_chain_of_calls_of_one_run(tmp_path: Path, is_apart: bool) -> None:
    """What came of them, and what they had, is followed however many there are; also with calls between them
    that both runs have.
    """
    count = 60_000
    both = {f"Torch.abs.{i}.forward": call(-1.0 - i) for i in range(count)} if is_apart else {}
    chain = {f"Torch.sin.{i}.forward": call(1.0 + i, result=2.0 + i) for i in range(count)}
    reference = {}
    for i, (name, record) in enumerate(chain.items()):
        reference[name] = record
        if is_apart:
            reference[f"Torch.abs.{i}.forward"] = both[f"Torch.abs.{i}.forward"]
    end = "Torch.exp.0.forward"
    write_dump(tmp_path / "a", {**reference, end: call(1.0 + count, result=0.5)})
    write_dump(tmp_path / "b", {**both, end: call(2.0 + count, result=0.7)})
    words = [sys.executable, "-m", "msprobe", "compare", "a", "b", "-o", "out"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr[-2000:]
    assert "Torch.sin.0.forward" in done.stdout
