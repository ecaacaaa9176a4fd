# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""calls.csv: one row for each output and gradient of each call (docs/formats/check.md). Rows are written as
they are found, whole: an interrupted check leaves what it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.files.appending import append_rows, csv_text
from msprobe.files.atomic_file import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.check.result import CheckedCall
    from msprobe.replay.comparison import OutputJudgement

HEADER = (
    "step", "rank", "call", "place", "status", "dtype", "shape", "judged", "error", "relative error",
    "trusted error", "trusted relative error", "times trusted", "times trusted allowed", "share of bound",
    "terms", "worst ULP", "99th percentile ULP", "non-finite", "unequal", "index", "introduced", "inherited",
    "truth", "reason",
)  # fmt: skip


class CallTable:
    """Raises IoError where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        write_text(path, csv_text([HEADER]))

    def write(self, call: CheckedCall) -> None:
        append_rows(self._path, rows_of(call))


def rows_of(call: CheckedCall) -> list[list[str]]:
    judgement = call.judgement
    if not judgement.outputs:
        blank = [""] * (len(HEADER) - 6)
        return [[str(call.step), str(call.rank), call.name, "", judgement.status, *blank, judgement.reason]]
    return [_row(call, output) for output in judgement.outputs]


def _row(call: CheckedCall, output: OutputJudgement) -> list[str]:
    share = call.shares.get(output.place)
    status = output.status
    if call.judgement.status == "nondeterministic" and call.judgement.reason.startswith(f"{output.place} "):
        status = "nondeterministic"
    values: list[Any] = [
        call.step, call.rank, call.name, output.place, status, output.dtype, list(output.shape),
        output.source, output.error, output.relative, output.trusted_error, output.trusted_relative,
        output.ratio, output.ratio_limit, output.excess, call.judgement.count, output.max_ulp,
        output.ulp_99, output.non_finite, output.unequal, output.index,
        None if share is None else share.introduced, None if share is None else share.inherited,
        call.judgement.truth, output.reason if status != "nondeterministic" else call.judgement.reason,
    ]  # fmt: skip
    return [_cell(value) for value in values]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
