# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A comparison in words, for the terminal, result.json and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.config_check.checks.check_result import ERROR
from msprobe.files.left_out import lines as missing_lines
from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.config_check.checks.likelihood import Ranked
    from msprobe.config_check.comparison import ConfigComparison

_MOST_NAMED = 10
_MOST_NOTES = 6
_LONGEST_VALUE = 60


def line(one: Ranked) -> str:
    """A difference in one line, with both values when they are short."""
    difference = one.difference
    what = (
        difference.name if difference.name == difference.check else f"{difference.check}: {difference.name}"
    )
    if difference.reference or difference.target:
        what += f": {_short(difference.reference)} -> {_short(difference.target)}"
    if difference.detail:
        what += f" ({difference.detail})"
    return what


def console_text(result: ConfigComparison, files: Sequence[Path] = (), paint: Paint = PLAIN) -> str:
    """The differences, the likeliest explanation first, and where the reports are."""
    lines = [paint.answer(printable(result.sentence), good=result.agree)]
    missing = missing_lines(result.left_out, beside=result.sentence)
    lines += [f"  not compared: {printable(one)}" for one in missing]
    lines += [f"  problem: {printable(problem)}" for problem in result.problems[:_MOST_NOTES]]
    errors = [one for one in result.ranked if one.difference.level == ERROR]
    if errors:
        lines.append(
            "What differs, reference -> target, the likeliest explanation of a numeric difference first:"
        )
    for place, one in enumerate(errors[:_MOST_NAMED], 1):
        lines.append(f"  {place}. {printable(line(one))}")
        lines.append(f"     {one.reason}")
    if len(errors) > _MOST_NAMED:
        lines.append(f"  and {len(errors) - _MOST_NAMED} more")
    lines += _warnings([one for one in result.ranked if one.difference.level != ERROR])
    lines += [f"  note: {printable(note)}" for note in result.notes[:_MOST_NOTES]]
    left = max(0, len(result.problems) - _MOST_NOTES) + max(0, len(result.notes) - _MOST_NOTES)
    if left:
        lines.append(f"  and {left} more in result.json")
    lines += [f"  {printable(str(path))}" for path in files]
    return "\n".join(lines) + "\n"


def _warnings(warnings: list[Ranked]) -> list[str]:
    if not warnings:
        return []
    names = ", ".join(printable(one.difference.name) for one in warnings[:_MOST_NAMED])
    more = ", ..." if len(warnings) > _MOST_NAMED else ""
    return [f"  warnings, which fail no check: {names}{more}"]


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 3] + "..."
