# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report.html: a comparison as one page that needs nothing but a browser.

What the data looks like is the concern of this file, of viewer/src/report/compare.js and of the native
report_rows() only.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from msprobe.compare.verdict_file import culprit_content
from msprobe.files.atomic_file import write_text
from msprobe.files.left_out import joined
from msprobe.files.page import report_page
from msprobe.layout.axes import axes_of
from msprobe.terminal.printable import beside

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.compare.culprit import Culprit
    from msprobe.compare.pair_result import PairResult
    from msprobe.compare.result import CompareResult

# A page beyond this would be slow to open. What is left out is in the result tables, and the page says so.
_MOST_TEXT = 48 << 20
_MOST_LISTED = 32  # ranks below each other; more of them are a grid
_MOST_LEFT_OUT = 1000
_MOST_FRAMES = 20
_SMALL = 64  # rounding errors: below it a row counts as rounding in the page


def write_report(path: Path, result: CompareResult, culprits: list[Culprit]) -> None:
    """Complete or absent. Raises IoError."""
    write_text(path, report_html(result, culprits))


def report_html(result: CompareResult, culprits: list[Culprit]) -> str:
    """The text of the page."""
    has_many = len({pair.rank for pair in result.pairs}) > _MOST_LISTED
    embedded = _embedded(result, culprits, has_many=has_many)
    blocks = [embedded.get(index, "") for index in range(len(result.pairs))]
    data = {
        **_data(result, culprits, set(embedded)),
        "grid": has_many,
        "axes": axes_of(Path(result.target)) if has_many else [],
    }
    return report_page("compare", "Comparison", data, blocks)


def _embedded(result: CompareResult, culprits: list[Culprit], *, has_many: bool) -> dict[int, str]:
    """The rows of the pairs that stand in the page, by the index of the pair. With room for some only: of
    those with a culprit, then of those with the most failing rows. has_many: ranks, of which most show the
    same: then of those with a finding and of one beside them.
    """
    shown = result.telling_ranks(culprits) if has_many else None
    blamed = {(culprit.step, culprit.rank) for culprit in culprits}

    def importance(index: int) -> tuple[bool, int, int]:
        pair = result.pairs[index]
        return (pair.step, pair.rank) not in blamed, -pair.summary.failing, index

    room = _MOST_TEXT
    chosen = {}
    for index in sorted(range(len(result.pairs)), key=importance):
        pair, report = result.pairs[index], result.pairs[index].report
        if shown is not None and pair.rank not in shown and (pair.step, pair.rank) not in blamed:
            continue
        if report is not None and len(report.json) <= room:
            room -= len(report.json)
            chosen[index] = report.json
    return chosen


def _data(result: CompareResult, culprits: list[Culprit], embedded: set[int]) -> dict[str, object]:
    left_out = joined(result.left_out)
    return {
        "status": result.status,
        "sentence": result.answer(culprits),
        "noisy": result.verdict.has_noise,
        "small": _SMALL,
        "culprits": [
            {
                **culprit_content(culprit),
                "plain": culprit.plain,
                "reason": beside(culprit.plain, culprit.reason),
                "sumText": culprit.sum_text,
                "stack": [asdict(frame) for frame in culprit.top_frames(_MOST_FRAMES)],
                "record": culprit.record or culprit.reference_record,
                "ofReference": bool(culprit.reference_record),
            }
            for culprit in culprits
        ],
        "notes": result.verdict.notes,
        "counts": result.counts,
        "leftOut": [[one.what, one.reason] for one in left_out[:_MOST_LEFT_OUT]],
        "leftOutTotal": len(left_out),
        "inputs": {"target": str(result.target), "reference": str(result.reference)},
        "pairs": [
            _pair(pair, index if index in embedded else None) for index, pair in enumerate(result.pairs)
        ],
    }


def _pair(pair: PairResult, block: int | None) -> dict[str, object]:
    """`block`: which of the blocks of rows is that of the pair."""
    report = pair.report
    return {
        "step": pair.step,
        "rank": pair.rank,
        "debug": pair.is_debug,
        "mode": pair.mode,
        "table": None if pair.table is None else pair.table.name,
        "rows": pair.summary.rows,
        "matched": pair.summary.matched,
        "failing": pair.summary.failing,
        "onlyInReference": pair.summary.reference_only,
        "differing": report.differing if report else 0,
        "unmeasured": report.unmeasured if report else 0,
        "worst": report.worst if report else 0,
        "items": report.rows if report else 0,
        "shown": report.shown if report else 0,
        "block": block,
    }
