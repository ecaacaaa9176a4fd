# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Cells that a spreadsheet would take for a formula, of tables that C++ and that Python writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from msprobe.files.appending import csv_text
from msprobe.files.csv_cells import guarded, unguarded
from msprobe.native import core

GUARDED = ["=1+1", "+x", "-1+1", "@a", "\tx", "-", "'=1", "''@", "--1", "-nano", "-1,5"]
AS_THEY_ARE = ["", "a", "'", "'a", "a=1", "-1", "+1.5", "-.5", "-1e-300", "-0.5%", "-inf", "-inf\t", "+nan"]


@pytest.mark.parametrize("cell", [*GUARDED, *AS_THEY_ARE])
def test_both_languages_guard_the_same_and_take_it_off(tmp_path: Path, cell: str) -> None:
    expected = ("'" if cell in GUARDED else "") + cell
    assert guarded(cell) == expected
    assert unguarded(expected) == cell
    with core.SheetWriter(tmp_path / "t.csv") as writer:
        writer.begin_sheet("s", ["name", "last"])
        writer.add_row([cell, "x"])
    (row,) = core.read_csv(tmp_path / "t.csv")[1]
    assert row == [cell, "x"]
    assert (tmp_path / "t.csv").read_bytes().decode("utf-8-sig") == csv_text([["name", "last"], [cell, "x"]])
