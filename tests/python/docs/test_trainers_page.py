# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The page of real trainers: some rows can be asked without the others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/trainers_table.md").read_text()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tests/trainers"), *sys.path])
    monkeypatch.delitem(sys.modules, "table", raising=False)  # that of the planted faults has the same name
    from table import page

    yield page
    sys.modules.pop("table")


def test_rows_that_are_not_asked_stay(page: Any) -> None:
    made_elsewhere = "Made with "
    kept = page([], PAGE).splitlines()
    for line, former in zip(kept, PAGE.splitlines()):
        assert line == former or line.startswith(made_elsewhere)
    assert len(kept) == len(PAGE.splitlines())


def test_a_row_that_is_asked_again_takes_the_place_of_what_was_said_of_it(page: Any) -> None:
    silent = {"answer": 0, "told": "equal"}
    fault = {
        "options": "--set decay=0.8",
        "effect": True,
        "named": False,
        "answer": 0,
        "told": "Nothing new.",
    }
    asked = {
        "name": "timm", "versions": {"timm": "9.9"}, "commit": "abc", "bit_equal": True, "same": silent,
        "kernel": {"effect": True, "answer": 1, "told": "Accused."}, "faults": [fault],
        "ratio": 2.0, "off": 1.0, "step_ms": 7.0, "timings": 3,
    }  # fmt: skip
    told = page([asked], PAGE)
    assert [line for line in told.splitlines() if line.startswith("| timm")] == [
        "| timm | timm 9.9 | yes | silent | **accused** | 0 of 1 | 2.0x | 1.0x | 7.0 ms |"
    ]
    assert [line for line in told.splitlines() if line.startswith("- timm")] == [
        "- timm, other kernel: Accused.",
        "- timm, `--set decay=0.8`: Nothing new.",
    ]
    assert "1 of 17 other kernels accused, 78 of 87 faults named" in told
    assert "asked at abc: timm" in told
