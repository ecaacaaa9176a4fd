# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe check: what is judged, options, files, exit codes."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import torch
from check_support import rows
from msprobe import InvalidArgument, UnsupportedError, cli
from msprobe.check.result import CheckResult
from msprobe.check.run import check
from msprobe.check.table import HEADER
from recorded_calls import call, saved, tensor, value, write_dump

LINEAR = "Functional.linear.0"


def linear_dump(
    folder: Path,
    *,
    seed: int = 0,
    factor: float = 1.0,
    shift: float = 0.0,
    dtype: torch.dtype = torch.float32,
) -> Path:
    """A dump of one linear; `factor`: its result is off by it; `shift`: its argument is."""
    torch.manual_seed(seed)
    x, w, b = torch.randn(16, 64), torch.randn(8, 64), torch.randn(8)
    x, w, b = ((t + shift if t is x else t).to(dtype) for t in (x, w, b))
    y = torch.nn.functional.linear(x, w, b) * factor
    names = [f"{LINEAR}.forward.input.{i}.pt" for i in range(3)]
    args = [saved(folder, name, t) for name, t in zip(names, (x, w, b))]
    record = call(args, [saved(folder, f"{LINEAR}.forward.output.0.pt", y)])
    return write_dump(
        folder, {f"{LINEAR}.forward": record}, task="tensor", dump_data_dir=str(folder / "dump_tensor_data")
    )


def test_recorded_results_are_judged(tmp_path: Path) -> None:
    assert check(linear_dump(tmp_path / "good")).exit_code == 0
    result = check(linear_dump(tmp_path / "bad", factor=1 + 1e-5))
    assert result.exit_code == 1
    assert result.sentence == "Functional.linear (1 of 1) is wrong: 1 of 1 call checked"
    (output,) = result.calls[0].judgement.outputs
    assert output.source == "recorded"
    assert (output.ratio or 0) > 2
    assert (output.excess or 0) > 1
    assert output.relative == pytest.approx(1e-5, rel=0.1)
    assert result.calls[0].judgement.count == 64


def test_a_result_that_is_nan_on_one_side(tmp_path: Path) -> None:
    result = check(linear_dump(tmp_path, factor=float("nan")))
    assert "NaN or infinite on one side only" in result.culprits[0].reason


def test_nan_on_both_sides_agree(tmp_path: Path) -> None:
    x = torch.tensor([1.0, -1.0, 4.0, 0.0])
    args = [saved(tmp_path, "x.pt", x)]
    record = call(args, [saved(tmp_path, "y.pt", torch.log(x))])
    path = write_dump(tmp_path, {"Torch.log.0.forward": record}, task="tensor", dump_data_dir=str(tmp_path))
    assert check(path).exit_code == 0


def test_the_dtype_decides_what_is_allowed(tmp_path: Path) -> None:
    """An error that bfloat16 explains is one in float32."""
    path = linear_dump(tmp_path / "b", dtype=torch.bfloat16, factor=1 + 2**-9)
    assert check(path).exit_code == 0
    assert check(linear_dump(tmp_path / "f", factor=1 + 2**-9)).exit_code == 1


def test_statistics_are_enough(tmp_path: Path) -> None:
    """Tensors are drawn: the same ones each time."""
    args = [{**tensor(2.0, -2.0), "shape": [8, 32], "Mean": 0.1, "Norm": 12.0} for _ in range(2)]
    path = write_dump(tmp_path, {f"{LINEAR}.forward": call(args)})

    def off(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, w) * 1.001

    assert check(path).exit_code == 0
    found = [check(path, operators={"Functional.linear": off}) for _ in range(2)]
    assert [one.exit_code for one in found] == [1, 1]
    assert found[0].calls == found[1].calls


def test_another_dtype(tmp_path: Path) -> None:
    result = check(linear_dump(tmp_path), dtype="bfloat16")
    assert result.exit_code == 0
    assert [output.dtype for output in result.calls[0].judgement.outputs] == ["bfloat16"]


def test_repeated_runs(tmp_path: Path) -> None:
    path = linear_dump(tmp_path)
    assert check(path, repeat=3).exit_code == 0
    flips = iter([0.0, 2.0**-22] * 3)

    def drifts(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, w, b) * (1 + next(flips))

    result = check(path, repeat=2, operators={"Functional.linear": drifts})
    assert result.culprits[0].status == "nondeterministic"
    assert "is not deterministic" in result.sentence
    assert result.exit_code == 1


def test_what_a_call_introduces_and_what_it_inherits(tmp_path: Path) -> None:
    golden = linear_dump(tmp_path / "golden")
    inherits = check(linear_dump(tmp_path / "a", shift=0.5), inputs_of=golden)
    introduces = check(linear_dump(tmp_path / "b", factor=1.01), inputs_of=golden)
    (share,) = inherits.calls[0].shares.values()
    assert (inherits.exit_code, share.introduced < 1e-6, share.inherited > 0.1) == (0, True, True)
    (share,) = introduces.calls[0].shares.values()
    assert introduces.exit_code == 1
    assert share.introduced == pytest.approx(0.01, rel=1e-3)
    assert share.inherited == 0


def test_shares_need_tensors_of_both(tmp_path: Path) -> None:
    statistics = write_dump(tmp_path / "s", {f"{LINEAR}.forward": call([tensor(), tensor()])})
    result = check(linear_dump(tmp_path / "t"), inputs_of=statistics)
    assert result.calls[0].no_shares == "both dumps need tensors (task tensor)"


# ---- the same with the command


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = cli.main(["check", "--force", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump, out = linear_dump(tmp_path / "d", factor=1.01), tmp_path / "out"
    code, text, _ = run(capsys, dump, "-o", out, "--format", "junit", "--worst", "3")
    assert code == 1
    assert text.splitlines()[0] == "Functional.linear (1 of 1) is wrong: 1 of 1 call checked"
    assert f"     {LINEAR} (step 0, rank 0)" in text
    assert str(out / "report.html") in text
    (row,) = rows(out)
    assert list(row) == list(HEADER)
    assert (row["call"], row["place"], row["status"], row["shape"]) == (
        LINEAR,
        "output.0",
        "wrong",
        "[16, 8]",
    )
    assert float(row["relative error"]) == pytest.approx(0.01, rel=1e-3)
    verdict = json.loads((out / "verdict.json").read_text())
    assert verdict["status"] == "wrong"
    assert verdict["operators"][0]["calls"][0]["outputs"][0]["place"] == "output.0"
    assert verdict["counts"] == {"calls": 1, "good": 0, "wrong": 1, "nondeterministic": 0, "skipped": 0}
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert len(suite.findall(".//testcase/failure")) == 1
    page = (out / "report.html").read_text()
    assert LINEAR in page
    assert "http://" not in re.sub(r"http://www\.w3\.org/\S+", "", page)


def test_json_is_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, linear_dump(tmp_path / "d"), "-o", tmp_path / "out", "--json")
    assert code == 0
    assert json.loads(text) == json.loads((tmp_path / "out/verdict.json").read_text())


def test_a_run_with_steps_and_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in (0, 2):
        for rank in (0, 1):
            bad = (step, rank) == (2, 1)
            linear_dump(tmp_path / f"d/step{step}/rank{rank}", factor=1.01 if bad else 1.0)
    out = tmp_path / "out"
    code, text, _ = run(capsys, tmp_path / "d", "-o", out)
    assert (code, len(rows(out))) == (1, 4)
    assert f"{LINEAR} (step 2, rank 1)" in text
    assert run(capsys, tmp_path / "d", "-o", out, "--step", "0")[0] == 0
    assert run(capsys, tmp_path / "d", "-o", out, "--rank", "0")[0] == 0
    assert [(row["step"], row["rank"]) for row in rows(out)] == [("0", "0"), ("2", "0")]
    code, _, error = run(capsys, tmp_path / "d", "-o", out, "--rank", "7")
    assert code == 2
    assert "expected a dump.json of the wanted ranks and steps" in error


def test_chosen_calls(steps: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(capsys, steps["float32"], "-o", out, "--calls", "softmax", "Torch.matmul.0")[0] == 0
    found = {row["call"].rpartition(".")[0] for row in rows(out)}
    assert found == {"Functional.softmax", "Functional.log_softmax", "Torch.matmul"}
    code, _, error = run(capsys, steps["float32"], "-o", out, "--calls", "no_such_function")
    assert code == 2
    assert "no call has a name with no_such_function" in error


def test_gradients_are_judged(
    steps: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, steps["float32"], "-o", tmp_path, "--calls", "layer_norm")[0] == 0
    assert {row["place"] for row in rows(tmp_path)} == {"output.0", "gradient.0", "gradient.1", "gradient.2"}


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    tensors = linear_dump(tmp_path / "t")
    statistics = write_dump(tmp_path / "s", {f"{LINEAR}.forward": call([tensor(), tensor()])})
    wrong: list[tuple[Path, dict[str, Any], type[Exception], str]] = [
        (tensors, {"device": "tpu"}, InvalidArgument, 'device: expected "cpu", "cuda" or "npu"'),
        (tensors, {"device": "cuda"}, InvalidArgument, "there is no cuda device here"),
        (tensors, {"dtype": "float7"}, InvalidArgument, "float7"),
        (tensors, {"repeat": 0}, InvalidArgument, "repeat: expected 1 or more, found 0"),
        (tensors, {"results": "other"}, InvalidArgument, "results: expected"),
        (statistics, {"results": "recorded"}, UnsupportedError, "its results were not recorded"),
        (tensors, {"inputs_of": tmp_path}, InvalidArgument, "expected"),
        (tmp_path / "absent", {}, InvalidArgument, "absent"),
    ]
    for path, options, kind, text in wrong:
        with pytest.raises(kind, match=re.escape(text)):
            check(path, **options)


# ---- bad input: one call is left out with a reason, others go on


def with_bad_calls(folder: Path) -> CheckResult:
    good = linear_dump(folder)
    record = json.loads(good.read_text())
    args = record["data"][f"{LINEAR}.forward"]["input_args"]
    missing = {**args[0], "data_name": "absent.pt"}
    outside = {**args[0], "data_name": "../../outside.pt"}
    (folder / "dump_tensor_data" / "damaged.pt").write_bytes(b"PK\x03\x04 nothing")
    data = {
        "Functional.linear.1.forward": call([missing, *args[1:]]),
        "Functional.linear.2.forward": call([{**args[0], "data_name": "damaged.pt"}, *args[1:]]),
        "Functional.linear.3.forward": call([outside, *args[1:]]),
        "Torch.save.0.forward": call([args[0], value(str(folder / "written"))]),
        "Torch.__builtins__.exec.0.forward": call([value("raise SystemExit(7)")]),
        "Torch.matmul.0.forward": call([args[0], args[1]]),  # shapes that do not fit
        "Torch.full.0.forward": call([value([1 << 40]), value(0.0)]),
        "Torch.zeros.0.forward": {"input_args": "no list", "input_kwargs": {}, "output": []},
        **record["data"],
    }
    write_dump(folder, data, task="tensor", dump_data_dir=str(folder / "dump_tensor_data"))
    return check(good, folder / "out")


def test_bad_calls_are_left_out_with_a_reason(tmp_path: Path) -> None:
    result = with_bad_calls(tmp_path)
    reasons = {one.name: one.judgement.reason for one in result.skipped}
    assert result.exit_code == 0
    assert len(reasons) == 8
    assert [one.name for one in result.calls if one.judgement.status == "good"] == [LINEAR]
    assert "absent.pt" in reasons["Functional.linear.1"]
    assert "damaged.pt" in reasons["Functional.linear.2"]
    assert reasons["Torch.save.0"] == "this function cannot be run by itself, or is no operator"
    assert "mat1 and mat2 shapes cannot be multiplied" in reasons["Torch.matmul.0"]
    assert "memory" in reasons["Torch.full.0"]
    assert '"input_args": expected a list' in reasons["Torch.zeros.0"]
    assert not (tmp_path / "written").exists()
    assert all(reasons.values())
    assert {
        row["call"]: row["reason"] for row in rows(tmp_path / "out") if row["status"] == "skipped"
    } == reasons


def test_a_dump_of_which_nothing_can_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_dump(tmp_path, {"Torch.save.0.forward": call([tensor()])})
    code, text, _ = run(capsys, path, "-o", tmp_path / "out")
    assert code == 2
    assert text.startswith("No call could be run again: this function cannot be run by itself")


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"task": "structure"}, "task structure records no values"),
        ({"level": "L0"}, "level L0 records no calls of functions"),
        ({}, "it is empty"),
    ],
)
def test_dumps_without_calls(
    header: dict[str, str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, error = run(capsys, write_dump(tmp_path, {}, **header), "-o", tmp_path / "out")
    assert (code, text) == (2, "")
    assert reason in error


def test_a_dump_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.json"
    for text in ("", "[1]", '{"data": 3}', '{"task": "tensor"'):
        path.write_text(text)
        code, _, error = run(capsys, path, "-o", tmp_path / "out")
        assert code == 2
        assert str(path) in error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump, out = linear_dump(tmp_path / "d"), tmp_path / "out"
    out.mkdir()
    (out / "calls.csv").symlink_to("/dev/full")
    code, _, error = run(capsys, dump, "-o", out)
    assert (code, "calls.csv" in error, error.count("\n")) in ((2, True, 1), (0, False, 0))
    shutil.rmtree(out)
    out.write_text("a file")
    code, _, error = run(capsys, dump, "-o", out)
    assert (code, str(out) in error) == (2, True)


def test_ctrl_c_leaves_whole_rows(tmp_path: Path) -> None:
    matrix = {**tensor(2.0, -2.0), "shape": [64, 64]}
    data = {f"Torch.matmul.{i}.forward": call([matrix, matrix]) for i in range(20_000)}
    path, out = write_dump(tmp_path, data), tmp_path / "out"
    command = [sys.executable, "-m", "msprobe", "check", path, "-o", out, "--device", "cpu", "--quiet"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        table = out / "calls.csv"
        while process.poll() is None and not (table.exists() and table.read_bytes().count(b"\n") > 20):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in error) == (130, False)
    found = rows(out)
    assert len(found) >= 20
    assert all(row["truth"] == "float64 on the CPU" and row["reason"] == "" for row in found)
    assert not (out / "verdict.json").exists()
