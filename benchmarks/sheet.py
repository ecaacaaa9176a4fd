# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Writing a table of 22 columns, as a comparison of statistics has: msprobe against openpyxl, cell by cell.

    python benchmarks/sheet.py [--rows 20000]

The workbooks must hold the same cells before a time is shown. On both sides the rows come from Python.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msprobe.native import core

COLUMNS = [f"column {i}" for i in range(22)]
RED_EVERY = 7

Row = list[str | float]


def rows_of(count: int) -> list[Row]:
    source = random.Random(1)
    texts = ["torch.float32", "torch.float32", "[8, 128, 1024]", "[8, 128, 1024]"]
    return [
        [
            *[f"Module.layers.{i % 48}.mlp.Linear.forward.{i}.input.0"] * 2,
            *texts,
            *(source.random() for _ in range(4)),
            *(f"{source.random()}%" for _ in range(4)),
            *(source.random() for _ in range(8)),
        ]
        for i in range(count)
    ]


def write_here(path: Path, rows: list[Row], threads: int) -> None:
    with core.SheetWriter(path, threads=threads) as writer:
        writer.begin_sheet("Sheet", COLUMNS)
        for i, row in enumerate(rows):
            writer.add_row(row, "red" if i % RED_EVERY == 0 else None)


def write_openpyxl(path: Path, rows: list[Row]) -> None:
    import openpyxl
    from openpyxl.styles import PatternFill

    fill = PatternFill(start_color="FFFF0000", end_color="FFFF0000", fill_type="solid")
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(COLUMNS)
    for i, row in enumerate(rows):
        sheet.append(row)
        if i % RED_EVERY == 0:
            for column in range(1, len(COLUMNS) + 1):
                sheet.cell(row=i + 2, column=column).fill = fill
    book.save(path)


def seconds(act: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        act()
        best = min(best, time.perf_counter() - begin)
    return best


def check_equal(ours: Path, theirs: Path) -> None:
    from python_calamine import CalamineWorkbook

    def cells(path: Path) -> list[object]:
        rows = CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()
        return [cell for row in rows for cell in row]

    for mine, other in zip(cells(ours), cells(theirs), strict=True):
        if isinstance(mine, float) and isinstance(other, float):
            assert math.isclose(mine, other, rel_tol=1e-15)  # openpyxl writes 16 digits
        else:
            assert mine == other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20000)
    rows = rows_of(parser.parse_args().rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.xlsx"
        other = Path(folder) / "o.xlsx"
        theirs = seconds(lambda: write_openpyxl(other, rows), 1)
        print(f"xlsx, openpyxl    {theirs:8.3f} s")
        for threads in (1, 2):
            ours = seconds(partial(write_here, path, rows, threads), 5)
            check_equal(path, other)
            size = path.stat().st_size
            print(f"xlsx, {threads} thread(s) {ours:8.3f} s   {theirs / ours:5.1f} x   {size} bytes")
        csv = seconds(lambda: write_here(path.with_suffix(".csv"), rows, 1), 5)
        print(f"csv               {csv:8.3f} s   {len(rows) / csv:.0f} rows/s")
        short: list[Row] = [["a", "b", 1.0, 2] for _ in range(200000)]

        def write_short() -> None:
            with core.SheetWriter(Path(folder) / "s.csv") as writer:
                writer.begin_sheet("Sheet", ["a", "b", "c", "d"])
                for row in short:
                    writer.add_row(row)

        print(f"csv, short cells  {len(short) / seconds(write_short, 5):.0f} rows/s")


if __name__ == "__main__":
    main()
