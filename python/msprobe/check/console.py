# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a check in a few lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.check.result import CheckedCall, CheckResult
    from msprobe.replay.comparison import OutputJudgement

_MOST_OPERATORS = 5
_MOST_REASONS = 3
_MOST_FUNCTIONS = 6  # of a reason


def console_text(
    result: CheckResult, files: Sequence[Path] = (), paint: Paint = PLAIN, *, worst: int = 0
) -> str:
    """The answer, the operators that are wrong, on demand the worst calls, and where the files are."""
    lines = [paint.answer(result.sentence, good=result.agrees)]
    for place, culprit in enumerate(result.culprits[:_MOST_OPERATORS], 1):
        first = culprit.calls[0]
        lines.append(f"  {place}. {paint.strong(printable(culprit.operator))}")
        lines.append(f"     {first.where}")
        lines.append(f"     {printable(culprit.reason)}")
    if len(result.culprits) > _MOST_OPERATORS:
        lines.append(f"  and {len(result.culprits) - _MOST_OPERATORS} more operators")
    if worst:
        lines += ["", *_table(result.worst(worst), bool(result.inputs_of))]
    lines += [paint.faint(f"  note: {note}") for note in notes_of(result)]
    lines += [f"  {printable(str(path))}" for path in files]
    return "\n".join(lines) + "\n"


def notes_of(result: CheckResult) -> list[str]:
    """What a reader of the answer has to know."""
    setting = result.setting
    notes = []
    if result.operators:
        notes.append(
            "judged: the given implementations where there is one, else torch's on " + setting.device
        )
    elif setting.source == "recorded":
        notes.append("judged: the results that the dump holds")
    elif setting.device == "cpu":
        notes.append(
            "judged: this CPU itself, where only a-priori bounds of sums of products can tell that it is "
            "wrong; record with task tensor to judge another device"
        )
    reasons: dict[str, list[str]] = {}  # and the functions
    for call in result.skipped:
        reasons.setdefault(call.judgement.reason, []).append(call.name.rpartition(".")[0])
    for reason, calls in sorted(reasons.items(), key=lambda item: -len(item[1]))[:_MOST_REASONS]:
        functions = list(dict.fromkeys(calls))
        more = " ..." if len(functions) > _MOST_FUNCTIONS else ""
        named = ", ".join(functions[:_MOST_FUNCTIONS]) + more
        notes.append(printable(f"not run again ({len(calls)} of {named}): {reason}"))
    return notes


_COLUMNS = ("call", "place", "error", "times trusted", "of bound", "ULP worst", "ULP 99 %")


def _table(calls: list[CheckedCall], with_shares: bool) -> list[str]:
    columns = [*_COLUMNS, "introduced", "inherited"] if with_shares else [*_COLUMNS]
    rows = [_row(call, call.judgement.worst, with_shares) for call in calls]
    widths = [max(len(cell) for cell in column) for column in zip(columns, *rows)]

    def line(cells: Sequence[str]) -> str:
        first = [cell.ljust(width) for cell, width in zip(cells[:2], widths)]
        rest = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:])]
        return "  " + "  ".join([*first, *rest])

    return [line(columns), *map(line, rows)]


def _row(call: CheckedCall, output: OutputJudgement | None, with_shares: bool) -> list[str]:
    if output is None:
        return [printable(call.name)] + [""] * (len(_COLUMNS) - 1 + 2 * with_shares)
    cells = [
        printable(call.name),
        output.place,
        *map(_number, (output.relative, output.ratio, output.excess, output.max_ulp, output.ulp_99)),
    ]
    if with_shares:
        share = call.shares.get(output.place)
        cells += [_number(share.introduced), _number(share.inherited)] if share else ["", ""]
    return cells


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
