# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""run_ut and multi_run_ut: files, statuses and numbers of mindstudio-probe; lists, resuming, bad input."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from accuracy_support import by_name, cells_agree, only, samples, table
from msprobe import FormatError, InvalidArgument, IoError, cli
from msprobe.compat.accuracy import run
from msprobe.compat.accuracy.run import run_ut
from msprobe.compat.accuracy.standards import DTYPES
from msprobe.compat.operator_standards import Standard, standard_of
from msprobe.replay.rounded_operands import to_bits
from recorded_calls import call, saved, tensor, value, write_dump
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.usefixtures("no_accelerator")


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples(tmp_path_factory.mktemp("golden"))


def config_file(folder: Path, **section: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({"task": "run_ut", "run_ut": {"error_data_path": str(folder), **section}}))
    return path


def check(path: Path, out: Path, **options: Any) -> dict[str, list[str]]:
    """The rows of the results by name."""
    return by_name(run_ut(path, out, **options).results)


# ---- golden


@pytest.mark.parametrize("command", ["run_ut", "acc_check"])
def test_the_sample_with_tensors(
    command: str, golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Statuses and headers are equal, numbers to 1e-6; messages are our own, those of skipped calls aside."""
    words = [
        "-f",
        "pytorch",
        command,
        "-api_info",
        str(golden / "dump_tensor/dump.json"),
        "-o",
        str(tmp_path),
    ]
    words += ["-save_error_data", "-config", str(config_file(tmp_path, black_list=["gt"]))]
    assert cli.main(words) == 0
    assert "No call is judged an error" in capsys.readouterr().out
    theirs = golden / "run_ut_tensor"
    assert table(only(tmp_path, "accuracy_checking_result_*.csv")) == table(
        only(theirs, "accuracy_checking_result_*.csv")
    )
    ours, expected = (table(only(folder, "accuracy_checking_details_*.csv")) for folder in (tmp_path, theirs))
    assert ours[0] == expected[0]
    assert [row[0] for row in ours] == [row[0] for row in expected]
    for row, other in zip(ours[1:], expected[1:]):
        for column, left, right in zip(ours[0][:-1], row, other):
            # How many roundings a kernel is off by is a matter of the processor: any number.
            tolerance = math.inf if column.startswith("ULP") else 1e-6
            assert cells_agree(left, right, tolerance), (row[0], column, left, right)
    for path in (*tmp_path.glob("*.csv"),):
        assert path.read_bytes().startswith(b"\xef\xbb\xbf")
        assert oct(path.stat().st_mode & 0o777) == "0o640"


def test_the_tensors_of_calls_that_do_not_pass(golden: Path, tmp_path: Path) -> None:
    config = config_file(tmp_path, black_list=["gt"])
    run_ut(golden / "dump_tensor/dump.json", tmp_path, config_path=config, save_error_data=True)
    theirs = only(golden / "run_ut_tensor", "ut_error_data*")
    ours = only(tmp_path, "ut_error_data*")
    assert sorted(p.name for p in ours.iterdir()) == sorted(p.name for p in theirs.iterdir())
    for path in theirs.iterdir():
        left, right = (torch.load(p, weights_only=True) for p in (ours / path.name, path))
        assert left.dtype is right.dtype
        assert torch.equal(left, right)


def test_the_sample_with_statistics(golden: Path, tmp_path: Path) -> None:
    """Tensors are drawn: statuses agree, numbers are others."""
    result = run_ut(golden / "dump_statistics/dump.json", tmp_path)
    theirs = golden / "run_ut_statistics"
    assert table(result.results) == table(only(theirs, "accuracy_checking_result_*.csv"))
    ours, expected = table(result.details), table(only(theirs, "accuracy_checking_details_*.csv"))
    assert ours[0] == expected[0]
    columns = [ours[0].index(name) for name in ("API Name", "Bench Dtype", "DEVICE Dtype", "Status")]
    assert [[row[i] for i in columns] for row in ours] == [[row[i] for i in columns] for row in expected]
    assert result.counts == {"pass": 71, "SKIP": 3, "Warning": 2}
    assert result.agrees


def test_several_processes_write_one_pair_of_files(golden: Path, tmp_path: Path) -> None:
    words = ["-api_info", str(golden / "dump_tensor/dump.json"), "-n", "2", "-o", str(tmp_path), "-d", "cpu"]
    script = "import sys; from msprobe import cli; sys.exit(cli.main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", script, "multi_acc_check", *words], check=False, timeout=300)
    assert done.returncode == 0
    alone = run_ut(golden / "dump_tensor/dump.json", tmp_path / "alone")
    together = only(tmp_path, "accuracy_checking_result_*.csv")
    assert by_name(together) == by_name(alone.results)
    assert by_name(only(tmp_path, "accuracy_checking_details_*.csv")) == by_name(alone.details)


# ---- the standards


def test_standards_of_operators() -> None:
    assert standard_of("mul_") is Standard.ABSOLUTE_THRESHOLD
    assert standard_of("matmul") is Standard.ULP
    assert standard_of("conv2d") is Standard.THOUSANDTH
    assert standard_of("relu") is Standard.BINARY
    assert standard_of("softmax") is Standard.BENCHMARK
    assert DTYPES["torch.bfloat16"].small_error[Standard.BENCHMARK] == 1e-16  # not 2^-16


# ---- options


def test_lists_of_functions(golden: Path, tmp_path: Path) -> None:
    path = golden / "dump_statistics/dump.json"
    rows = check(
        path, tmp_path, config_path=config_file(tmp_path, white_list=["exp", "relu"], black_list=["exp"])
    )
    checked = [name for name, row in rows.items() if row[1] != "SKIP"]
    assert checked == ["Functional.relu.0"]
    assert rows["Torch.exp.0"][3] == "API exp in black list or not in white list. SKIP."
    with pytest.raises(InvalidArgument, match=r"Invalid api in white_list: \['expp'\]"):
        check(path, tmp_path, config_path=config_file(tmp_path, white_list=["expp"]))


def test_calls_that_differ_in_values_only_are_left_out(tmp_path: Path) -> None:
    data = {f"Torch.exp.{i}.forward": call([tensor(float(i + 1))]) for i in range(3)}
    data["Torch.exp.3.forward"] = call([tensor(shape=[3])])
    path = write_dump(tmp_path, data)
    assert list(check(path, tmp_path, filter_api=True)) == ["Torch.exp.0", "Torch.exp.3"]
    assert len(check(path, tmp_path)) == 4


def test_precision_of_the_numbers(tmp_path: Path) -> None:
    path = write_dump(tmp_path, {"Torch.exp.0.forward": call([tensor(shape=[9])])})
    result = run_ut(path, tmp_path, config_path=config_file(tmp_path, precision=3))
    assert re.fullmatch(r"[01]\.\d{3}", table(result.details)[1][4])


def test_an_interrupted_run_is_continued(golden: Path, tmp_path: Path) -> None:
    path = golden / "dump_tensor/dump.json"
    whole = run_ut(path, tmp_path / "whole")
    folder = tmp_path / "cut"
    folder.mkdir()
    names = ("accuracy_checking_result_20260101000000.csv", "accuracy_checking_details_20260101000000.csv")
    results, details = (folder / name for name in names)
    # Ended in the middle of the fifth row of the results; details of one call more are there.
    lines = whole.results.read_bytes().split(b"\r\n")
    results.write_bytes(b"\r\n".join(lines[:5]) + b"\r\n" + lines[5][:7])
    kept = table(whole.details)[:11]
    with open(details, "w", encoding="utf-8-sig", newline="") as file:
        import csv

        csv.writer(file).writerows(kept)
    continued = run_ut(path, tmp_path, result_csv_path=str(results))
    assert continued.results == results
    assert by_name(results) == by_name(whole.results)
    assert by_name(details) == by_name(whole.details)
    assert (
        run_ut(path, tmp_path, result_csv_path=str(results)).counts == whole.counts
    )  # nothing is left to do


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("result.csv", "", InvalidArgument),
        ("accuracy_checking_result_2026.csv", "", InvalidArgument),
        ("accuracy_checking_result_20260101000000_rank0.csv", "", InvalidArgument),
        ("accuracy_checking_result_20260101000000.csv", "a,b\r\n1,2\r\n", FormatError),
        ("accuracy_checking_result_20260101000000.csv", "", FormatError),
        ("accuracy_checking_result_20260101000000.csv", "\0\0\0", FormatError),
    ],
)
def test_result_files_that_are_not_ours(
    name: str, text: str, error: type, golden: Path, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(error, match=re.escape(name)):
        run_ut(golden / "dump_tensor/dump.json", tmp_path, result_csv_path=str(path))
    assert path.read_bytes() == before


# ---- how calls are run


def test_backward_is_run_only_where_it_can_be(tmp_path: Path) -> None:
    x = tensor(requires_grad=True)
    gradient = {"input": [tensor()], "output": [tensor()]}
    data = {
        "Torch.exp.0.forward": call([x]),
        "Torch.exp.0.backward": gradient,
        "Torch.exp.1.forward": call([x]),
        "Torch.add.0.forward": call([x, value(1.0)], out=tensor()),
        "Torch.add.0.backward": gradient,
        "Tensor.repeat_interleave.0.forward": call([x, value(2)]),
        "Torch.chunk.0.forward": call([tensor(shape=[4], requires_grad=True), value(2)]),
        "Torch.chunk.0.backward": gradient,
        "Torch.exp.2.forward": call([x]),
        "Torch.exp.2.backward": {"input": [tensor(shape=[3])], "output": []},
        "Functional.dropout.0.forward": call([tensor(shape=[200], requires_grad=True), value(0.5)]),
        "Functional.dropout.0.backward": {"input": [tensor(shape=[200])], "output": []},
        "Tensor.add_.0.forward": call([x, value(1.0)]),
        "Tensor.add_.0.backward": gradient,
    }
    rows = check(write_dump(tmp_path, data), tmp_path)
    assert {name: row[1:3] for name, row in rows.items()} == {
        "Torch.exp.0": ["pass", "pass"],
        "Torch.exp.1": ["pass", " "],
        "Torch.add.0": ["pass", "SKIP"],
        "Tensor.repeat_interleave.0": ["pass", "SKIP"],
        "Torch.chunk.0": ["pass", "SKIP"],
        "Torch.exp.2": ["pass", "SKIP"],
        "Functional.dropout.0": ["pass", "pass"],
        "Tensor.add_.0": ["pass", "pass"],
    }
    assert rows["Torch.chunk.0"][3] == "Multiple backward is not supported."
    assert "shape [3]" in rows["Torch.exp.2"][3]


def test_calls_of_the_existing_tools_forms_are_converted(tmp_path: Path) -> None:
    classes = tensor(2, 0, dtype="torch.int32", shape=[4])
    data = {
        "Functional.cross_entropy.0.forward": call([tensor(shape=[4, 3]), {**classes, "Min": -100}]),
        "Torch.histc.0.forward": call([tensor(9, 0, dtype="torch.int64", shape=[20]), value(4)]),
        "Torch.linalg.inv.0.forward": call([tensor(shape=[1, 1])]),
        "Functional.conv1d.0.forward": call([tensor(shape=[1, 2, 8]), tensor(shape=[3, 2, 3])]),
        "Torch.mul.0.forward": call([tensor(dtype="torch.float16"), tensor()]),
        "Functional.softmax.0.forward": call(
            [tensor(dtype="torch.bfloat16")],
            dim=value(0),
            dtype={"type": "torch.dtype", "value": "torch.float32"},
        ),
    }
    rows = check(write_dump(tmp_path, data), tmp_path)
    assert {row[1] for row in rows.values()} == {"pass"}


def test_results_that_are_not_finite_or_of_another_kind_are_errors(tmp_path: Path) -> None:
    """As mindstudio-probe has it: a NaN on both sides has no cosine."""
    x = torch.tensor([[1.0, -1.0, 4.0]] * 2)
    data = {"Torch.log.0.forward": call([saved(tmp_path, "a.pt", x)])}
    result = run_ut(write_dump(tmp_path, data, task="tensor", dump_data_dir="x"), tmp_path)
    assert table(result.results)[1][1] == "error"
    assert table(result.details)[1][4] == "nan"
    assert not result.agrees
    assert cli.main(["run_ut", "-api_info", str(tmp_path / "dump.json"), "-o", str(tmp_path / "o")]) == 1


@pytest.mark.parametrize(("asked", "status"), [("tf32", "pass"), ("ieee", "error")])
def test_products_are_judged_by_the_precision_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, status: str
) -> None:
    """A device that rounds the float32 operands of products to TF32: the processor stands in for it."""

    class Rounds(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.mm.default:
                args = [to_bits(one, 10) if one.dtype is torch.float32 else one for one in args]
            return func(*args, **(kwargs or {}))

    switch = "backends.mkldnn.matmul.fp32_precision"
    monkeypatch.setattr(run, "switches", lambda: {switch: asked})
    torch.manual_seed(0)
    operands = [
        saved(tmp_path, f"{i}.pt", torch.randn(shape)) for i, shape in enumerate([(32, 96), (96, 48)])
    ]
    path = write_dump(tmp_path, {"Torch.mm.0.forward": call(operands)}, task="tensor", dump_data_dir="x")
    with Rounds():
        result = run_ut(path, tmp_path)
    assert by_name(result.results)["Torch.mm.0"][1] == status, table(result.details)[1][-2:]
    told = f"rounded to 10 bits (TF32), as torch.{switch} says"
    assert (told in table(result.details)[1][-1]) == (status == "pass")


def test_complex_results_are_compared_part_by_part(tmp_path: Path) -> None:
    data = {
        "Torch.fft_fft.0.forward": call([tensor(shape=[8])]),
        "Torch.polar.0.forward": call([tensor(), tensor()]),
    }
    rows = check(write_dump(tmp_path, data), tmp_path)
    assert rows["Torch.polar.0"][1] == "pass"


# ---- bad input


def test_bad_calls_are_skipped_with_a_reason_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = saved(tmp_path, "good.pt", torch.ones(3))
    (tmp_path / "dump_tensor_data/cut.pt").write_bytes(b"PK\x03\x04")
    data = {
        "Torch.exp.0.forward": call([{**good, "data_name": "missing.pt"}]),
        "Torch.exp.1.forward": call([{**good, "data_name": "cut.pt"}]),
        "Torch.exp.2.forward": call([{**good, "data_name": "../../etc/passwd"}]),
        "Torch.load.0.forward": call([value("x")]),
        "Torch.exp.0/../../x.forward": call([good]),
        "Os.system.0.forward": call([value("x")]),
        "Torch.exp.3.forward": call([value("x")]),
        "Torch.mm.0.forward": call([good, good]),
        "Torch.exp.4.forward": call([{}]),
        "Torch.exp.5.forward": {"input_args": 3},
        "Torch.outer.0.forward": call(
            [tensor(shape=[1 << 20]), tensor(shape=[1 << 20])], [tensor(shape=[1 << 20, 1 << 10])]
        ),
        "Torch.exp.6.forward": call([good]),
    }
    path = write_dump(tmp_path, data, task="tensor", dump_data_dir="x")
    rows = check(path, tmp_path)
    assert [name for name, row in rows.items() if row[1] != "SKIP"] == ["Torch.exp.6"]
    assert "missing.pt" in rows["Torch.exp.0"][3]
    assert "cut.pt" in rows["Torch.exp.1"][3]
    assert "cannot be run by itself" in rows["Torch.load.0"][3]
    assert "exp()" in rows["Torch.exp.3"][3]  # torch's own reason
    assert "self must be a matrix" in rows["Torch.mm.0"][3]
    assert not (tmp_path.parent / "x").exists()


def test_a_call_that_needs_more_memory_than_there_is(tmp_path: Path) -> None:
    """Also where nothing in the record says so: what torch asks for is refused, and the process lives."""
    data = {
        "Torch.exp.0.forward": call([tensor(shape=[1 << 30])], [tensor(shape=[1 << 30])]),
        "Tensor.repeat.0.forward": call([tensor(shape=[1 << 10]), value(1 << 25)]),
        "Torch.exp.1.forward": call([tensor()]),
    }
    rows = check(write_dump(tmp_path, data), tmp_path)
    assert {name: row[1] for name, row in rows.items()} == {
        "Torch.exp.0": "SKIP",
        "Tensor.repeat.0": "SKIP",
        "Torch.exp.1": "pass",
    }
    assert "GiB" in rows["Torch.exp.0"][3]


@pytest.mark.parametrize(
    ("header", "data", "reason"),
    [
        ({"task": "structure"}, {}, "structure"),
        ({"level": "L0"}, {"Module.fc.Linear.forward.0": call([])}, "level L0"),
        ({}, {}, "empty"),
    ],
)
def test_dumps_without_calls(header: dict[str, str], data: Any, reason: str, tmp_path: Path) -> None:
    path = write_dump(tmp_path, data, **header)
    with pytest.raises(FormatError, match=reason):
        run_ut(path, tmp_path)
    assert list(tmp_path.glob("*.csv")) == []


def test_wrong_command_lines(golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(golden / "dump_tensor/dump.json")
    for words in (
        ["run_ut"],
        ["run_ut", "-api_info", "missing.json"],
        ["run_ut", "-api_info", path, "-d", "0", "0"],
        ["run_ut", "-api_info", path, "-d", "-1"],
        ["run_ut", "-api_info", path, "-d", "gpu"],
        ["multi_run_ut", "-api_info", path, "-n", "65"],
        ["multi_run_ut", "-api_info", path, "-n", "0"],
        ["run_ut", "-api_info", path, "-config", "missing.json"],
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 2, words
    capsys.readouterr()
    bad = tmp_path / "bad.json"
    for section in (
        {"precision": 21},
        {"rank_list": [-1]},
        {"white_list": "x"},
        {"error_data_path": "/missing"},
    ):
        bad.write_text(json.dumps({"run_ut": section}))
        assert cli.main(["run_ut", "-api_info", path, "-config", str(bad)]) == 2
        shown = capsys.readouterr().err
        assert next(iter(section)) in shown
        assert "bad.json" in shown


def test_a_full_disk_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from msprobe.files.appending import append_rows

    def write(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "x.csv").touch()
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(IoError, match="No space left"):
        append_rows(tmp_path / "x.csv", [["a", "b"]])


def test_a_table_of_several_processes_has_one_header_and_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    program = (
        "import sys; from pathlib import Path; from msprobe.files.appending import append_rows\n"
        "for i in range(200): append_rows(Path(sys.argv[1]), [[sys.argv[2], str(i)]], header=['rank', 'i'])"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program, path, str(rank)]) for rank in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    first, *lines = path.read_text().splitlines()
    assert first == "rank,i"
    assert sorted(lines) == sorted(f"{rank},{i}" for rank in range(2) for i in range(200))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_device(golden: Path, tmp_path: Path) -> None:
    assert run_ut(golden / "dump_tensor/dump.json", tmp_path, device="cuda:0").agrees
