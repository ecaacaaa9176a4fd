# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""compare --replay: a faulty operator is confirmed, one that is right is cleared, others are unknown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from children import run
from msprobe import cli


def record(folder: str, fault: str, task: str = "tensor") -> None:
    """A step of a small model, with a fault or none."""
    from msprobe.pytorch import PrecisionDebugger

    library = torch.library.Library("aten", "IMPL")
    if fault == "softmax":
        library.impl(
            "_softmax", lambda x, dim, half: torch.exp(x) / torch.exp(x).sum(dim, True) * 1.01, "CPU"
        )
    torch.manual_seed(0)
    x, w, v = torch.randn(4, 6), torch.randn(8, 6), torch.randn(8, 8)
    PrecisionDebugger(task=task, dump_path=folder, level="L1")
    PrecisionDebugger.start()
    y = torch.nn.functional.linear(x, w)
    y = torch.nn.functional.softmax(y, dim=-1)
    # The same call with another setting: as right as the other one.
    y = torch.nn.functional.gelu(y, approximate="tanh" if fault == "gelu" else "none")
    torch.nn.functional.linear(y, v)
    PrecisionDebugger.stop()
    PrecisionDebugger.step()
    PrecisionDebugger._reset()


def compared(
    folder: Path, faults: tuple[str, str], capsys: Any, task: str = "tensor"
) -> tuple[dict[str, Any], str, str]:
    """The first culprit, what stands on the screen, and the page. faults: of reference and target."""
    for name, fault in zip(("golden", "target"), faults):
        run(record, str(folder / name), fault, task)
    words = ["compare", str(folder / "golden"), str(folder / "target"), "-o", str(folder / "out"), "--replay"]
    assert cli.main(words) == 1
    verdict = json.loads((folder / "out/verdict.json").read_text())
    return verdict["culprits"][0], capsys.readouterr().out, (folder / "out/report.html").read_text()


def test_a_wrong_operator_is_confirmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    culprit, out, page = compared(tmp_path, ("", "softmax"), capsys)
    assert culprit["operator"] == "Functional.softmax"
    assert culprit["replay"]["answer"] == "confirmed"
    assert culprit["replay"]["introduced"] == pytest.approx(0.01, rel=1e-2)
    assert culprit["replay"]["inherited"] == 0
    assert re.search(r"replay: confirmed: the call is wrong: .*introduced 0\.01, inherited 0", out)
    assert "the call is wrong" in page


def test_a_right_operator_is_cleared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is the reference's that is wrong."""
    culprit, out, _ = compared(tmp_path, ("softmax", ""), capsys)
    assert culprit["operator"] == "Functional.softmax"
    assert culprit["replay"]["answer"] == "cleared"
    assert culprit["replay"]["introduced"] < 1e-6
    assert "replay: cleared: the call of the reference is wrong" in out


def test_what_is_no_result_is_not_cleared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    culprit, out, _ = compared(tmp_path, ("", "gelu"), capsys)
    assert culprit["kind"] == "argument"
    assert culprit["replay"]["answer"] == "unknown"
    assert "replay: unknown: it is no result of a recorded function" in out


def test_without_tensors_it_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    culprit, out, _ = compared(tmp_path, ("", "softmax"), capsys, "statistics")
    assert culprit["replay"]["answer"] == "unknown"
    assert "record both runs with task tensor" in out
