# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a check of two packs says: the rows of its sheet, and what differs in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Union

Cell = Union[str, float, int, bool, None]

ERROR = "error"
WARNING = "warning"


@dataclass(frozen=True)
class Difference:
    """One thing that differs, or a group of them (`count`).

    name: of the variable, package, parameter or switch; likelihood.json ranks by it.
    level: ERROR when the check fails because of it, else WARNING.
    """

    check: str
    name: str
    reference: str
    target: str
    level: str = ERROR
    count: int = 1
    detail: str = ""


@dataclass
class CheckResult:
    """passed: as the sheet `summary` says. notes: what the answer does not cover."""

    name: str
    columns: tuple[str, ...]
    rows: list[list[Cell]] = field(default_factory=list)
    passed: bool = True
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fail(self, difference: Difference) -> None:
        self.passed = False
        self.differences.append(difference)


_MISSING = "(none)"
_EXACT_INTEGERS = 2**53


def shown(value: object) -> str:
    """A value in one line of text."""
    if value is None:
        return _MISSING
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def sheet_number(value: float | None) -> Cell:
    """A number as mindstudio-probe has it in a sheet: 16 digits; empty for NaN, a word for an infinity."""
    if value == 0:
        return 0
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    rounded = float(f"{value:.16g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < _EXACT_INTEGERS else rounded


def sheet_cell(value: object) -> Cell:
    """A value of a JSON file as a cell; lists and objects as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return sheet_number(value)
    return shown(value)
