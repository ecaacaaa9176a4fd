# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Cells of a csv that a spreadsheet program would take for a formula: what `csv_text.h` of the library does,
for tables that Python writes.
"""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[=+-]((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf|nan|infinity)%?\t?", re.IGNORECASE | re.ASCII)


def guarded(cell: str) -> str:
    """With a `'` in front where the text looks like a formula and is no number, nor `=` and one."""
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def unguarded(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
