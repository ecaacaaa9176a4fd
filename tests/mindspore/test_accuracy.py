# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""run_ut and op_generate of a MindSpore dump: MindSpore's functions next to PyTorch's, on the CPU."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, ops
from msprobe.cli import main
from msprobe.mindspore import PrecisionDebugger

pytest.importorskip("torch")

PASSING = {
    "MintFunctional.linear.0": ["pass", "pass"],
    "Mint.add.0": ["pass", "pass"],
    "Functional.softmax.0": ["pass", "pass"],
    "Mint.cat.0": ["pass", "pass"],
    "Tensor.__gt__.0": ["pass", " "],
    "Mint.where.0": ["pass", "pass"],
    "Functional.tanh.0": ["pass", "pass"],
    "Tensor.sum.0": ["pass", "pass"],
}


def calls(x: Tensor, w: Tensor) -> Tensor:
    h = mint.add(mint.nn.functional.linear(x, w), 1.0, alpha=2)
    h = ops.softmax(h, axis=-1)
    h = mint.cat((h, h), dim=0)
    h = mint.where(h > 0.2, h, -1.0)
    return ops.tanh(h).sum()


def dump(folder: Path, task: str = "tensor") -> Path:
    config = folder / f"{task}.json"
    path = folder / task
    config.write_text(
        json.dumps({"task": task, "dump_path": str(path), "level": "L1", "rank": [], "step": []})
    )
    x, w = (Tensor(np.random.RandomState(i).randn(4, 6).astype("float32")) for i in (0, 1))
    debugger = PrecisionDebugger(config_path=str(config))
    debugger.start()
    ms.value_and_grad(calls, (0, 1))(x, w)
    debugger.stop()
    debugger.step()
    PrecisionDebugger._reset()
    return path / "step0" / "rank" / "dump.json"


def rows(folder: Path, kind: str) -> list[list[str]]:
    (path,) = folder.glob(f"accuracy_checking_{kind}_*.csv")
    return list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_every_call_passes_on_a_cpu(tmp_path: Path, task: str) -> None:
    assert (
        main(["-f", "mindspore", "run_ut", "-api_info", str(dump(tmp_path, task)), "-o", str(tmp_path)]) == 0
    )
    header, *found = rows(tmp_path, "result")
    assert header == ["API Name", "Forward Test Success", "Backward Test Success", "Message"]
    assert {row[0]: row[1:3] for row in found} == PASSING
    header, first, *_ = rows(tmp_path, "details")
    assert header[1:7] == ["Bench Dtype", "Tested Dtype", "Shape", "Cosine", "MaxAbsErr", "MaxRelativeErr"]
    assert first[:4] == ["MintFunctional.linear.0.forward.output.0", "Float64", "Float32", "(4, 4)"]


def test_a_wrong_function_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dump(tmp_path)
    right = ops.softmax
    monkeypatch.setattr(ops, "softmax", lambda x, axis: right(x, axis) * 1.001)
    arguments = ["run_ut", "-api_info", str(path), "-o", str(tmp_path), "-save_error_data"]
    assert main(arguments) == 1
    found = {row[0]: row[1] for row in rows(tmp_path, "result")}
    assert found["Functional.softmax.0"] == "error"
    assert found["Mint.cat.0"] == "pass"
    (kept,) = tmp_path.glob("ut_error_data*")
    assert (kept / "Functional.softmax.0.forward.output.device.0.pt").is_file()


def test_an_interrupted_run_is_continued_by_several_processes(tmp_path: Path) -> None:
    path = dump(tmp_path)
    main(["run_ut", "-api_info", str(path), "-o", str(tmp_path)])
    (result,) = tmp_path.glob("accuracy_checking_result_*.csv")
    lines = result.read_text(encoding="utf-8").splitlines(keepends=True)
    result.write_text("".join(lines[:4]), encoding="utf-8")
    assert (
        main(["-f", "mindspore", "multi_run_ut", "-api_info", str(path), "-csv_path", str(result), "-n", "2"])
        == 0
    )
    assert {row[0]: row[1:3] for row in rows(tmp_path, "result")[1:]} == PASSING


@pytest.mark.parametrize(
    ("name", "propagation", "data"),
    [
        ("Mint.add.0", "forward", "real_data"),
        ("Functional.softmax.0", "backward", "random_data"),
        ("MintFunctional.linear.0", "backward", "real_data"),
    ],
)
def test_a_script_of_one_call_runs_alone(tmp_path: Path, name: str, propagation: str, data: str) -> None:
    config = tmp_path / "op.json"
    config.write_text(
        json.dumps(
            {
                "dump_json_path": str(dump(tmp_path)),
                "api_name": name,
                "extract_api_path": str(tmp_path / name),
                "propagation": propagation,
                "data_mode": data,
            }
        )
    )
    assert main(["-f", "mindspore", "op_generate", "-i", str(config), "-o", str(tmp_path)]) == 0
    script = tmp_path / f"{name}.{propagation}.py"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (_, row) = rows(tmp_path / "op_result_output", "result")
    assert row[:3] == [name, *(["pass", " "] if propagation == "forward" else [" ", "pass"])]
