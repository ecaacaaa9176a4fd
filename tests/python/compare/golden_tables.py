# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Result tables of mindstudio-probe beside ours: reading, and what is meant to differ
(docs/compatibility.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl

RED = "FFFF0000"
BAD_EXTREMES = "maximum or minimum is nan, -inf, or inf"
ZERO_D = (
    "This is type of 0-d tensor, can not calculate 'Cosine', 'EucDist', 'One Thousandth Err Ratio' and "
    "'Five Thousandths Err Ratio'. "
)
NO_ABSOLUTE = "Cannot compare by MaxAbsError, the data contains nan/inf/-inf in dump data."
NO_RELATIVE = "Cannot compare by MaxRelativeError, the data contains nan/inf/-inf in dump data."

Row = dict[str, Any]


# ---- what is meant to differ


def zero_d_message_once(sample: str, row: Row) -> None:
    """The sentences about a tensor without dimensions stand there once, not up to 16 times."""
    text = row.get("Err_message")
    if isinstance(text, str) and text.startswith(ZERO_D):
        for sentence in (ZERO_D, NO_ABSOLUTE, NO_RELATIVE):
            head, found, tail = text.partition(sentence)
            text = head + found + tail.replace(sentence, "")
        row["Err_message"] = text


def nan_is_red(sample: str, row: Row) -> None:
    """A NaN is as bad as an infinity."""
    if row.get("NPU max") in ("Nan", "nan") and row["colour"] != RED:
        row["colour"] = RED
        row["Err_message"] = "\n".join(filter(None, (row["Err_message"], BAD_EXTREMES)))


def zeros_against_ones(sample: str, row: Row) -> None:
    """A cosine that cannot be computed because one side is all zero does not hide a large error."""
    one_sided = "Cannot compare by Cosine Similarity, All the data is Zero"
    if one_sided in str(row.get("Err_message")) and row["MaxAbsErr"] > 0.001:
        assert row["Accuracy Reached or Not"] == "Yes"
        row["Accuracy Reached or Not"] = "No"


def null_without_counterpart(sample: str, row: Row) -> None:
    """A null passes only when there is a null on the other side."""
    if row.get("Result") == "pass" and row["Bench Name"] == "N/A":
        row["Result"] = "N/A"


def complex_with_imaginary_part(sample: str, row: Row) -> None:
    """n = [1 + 1j, 2], b = [1 + 1j, 2.5]: the imaginary part counts."""
    if sample == "edge_tensor" and row["NPU Name"] == "Torch.complex.0.forward.output.0":
        assert row["Cosine"] == 0.996545758245  # of the real parts
        row["Cosine"] = round(7 / math.sqrt(6 * 8.25), 12)


RULES: list[Callable[[str, Row], None]] = [
    zero_d_message_once,
    nan_is_red,
    zeros_against_ones,
    null_without_counterpart,
    complex_with_imaginary_part,
]


def table_of(path: Path) -> tuple[list[str], list[Row]]:
    sheet = openpyxl.load_workbook(path)["Sheet"]
    header, *rows = sheet.iter_rows()
    names = [cell.value for cell in header]
    return names, [
        {
            **{name: cell.value for name, cell in zip(names, cells)},
            "colour": cells[0].fill.fgColor.rgb if cells[0].fill.fill_type else None,
        }
        for cells in rows
    ]


def is_same(expected: Any, found: Any) -> bool:
    if (
        isinstance(expected, str)
        and expected.endswith("%")
        and isinstance(found, str)
        and found.endswith("%")
    ):
        expected, found = float(expected[:-1]), float(found[:-1])
    if isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        return math.isclose(expected, found, rel_tol=1e-6, abs_tol=1e-12) or expected != expected != found
    return bool(expected == found)


def check_tables(theirs: Path, ours: Path, *, sample: str, without: tuple[str, ...] = ()) -> None:
    """Every cell and colour, but for the columns `without`."""
    names, expected = table_of(theirs)
    found_names, found = table_of(ours)
    names = [name for name in names if name not in without]
    assert found_names == [*names, "Match"]
    assert len(found) == len(expected)
    for index, (row, our_row) in enumerate(zip(expected, found)):
        for rule in RULES:
            rule(sample, row)
        for name in (*names, "colour"):
            what = f"{theirs.name}, row {index}, {row['NPU Name']}, {name}"
            assert is_same(row[name], our_row[name]), f"{what}: {row[name]!r}, found {our_row[name]!r}"
