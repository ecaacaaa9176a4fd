# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Cells of a csv, and which of them a spreadsheet program would take for a formula: what `csv_text.h` of the
library does, for tables that Python writes.
"""

from __future__ import annotations

import csv
import io
import re

from msprobe.native import FormatError

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    import os

_LARGEST_FIELD = 1 << 20
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[=+-]((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|nan|infinity)%?\t?", re.IGNORECASE | re.ASCII)


def guarded(cell: str) -> str:
    """With a `'` in front where the text looks like a formula and is no number, nor `=` and one."""
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def unguarded(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def cells_of(text: str, path: str | os.PathLike[str]) -> list[list[str]]:
    """Of each row, as they are in the file. Raises FormatError that names the file."""
    csv.field_size_limit(_LARGEST_FIELD)
    try:
        return list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error as error:
        raise FormatError(f"{path}: expected csv: {error}") from error
