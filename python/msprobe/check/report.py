# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report.html: a check as one page that needs nothing but a browser (viewer/src/report/check.js)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msprobe.check.console import notes_of
from msprobe.check.result import badness
from msprobe.check.verdict_file import status_of
from msprobe.files.atomic_file import write_text
from msprobe.files.page import report_page
from msprobe.native import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.check.result import CheckedCall, CheckResult

# A page beyond this would be slow to open; what is left out is in calls.csv.
_MOST_CALLS = 20_000
_MOST_REASONS = 200


def write_report(path: Path, result: CheckResult) -> None:
    """Complete or absent. Raises IoError."""
    write_text(path, report_html(result))


def report_html(result: CheckResult) -> str:
    """The text of the page."""
    return report_page("check", "Operators checked", _data(result))


def _data(result: CheckResult) -> dict[str, Any]:
    judged = sorted((c for c in result.calls if c.judgement.outputs), key=badness, reverse=True)
    return {
        "status": status_of(result),
        "sentence": result.sentence,
        "operators": [
            {
                "name": culprit.operator,
                "bad": len(culprit.calls),
                "checked": culprit.checked,
                "call": culprit.calls[0].where,
                "reason": culprit.reason,
            }
            for culprit in result.culprits
        ],
        "shares": result.inputs_of is not None,
        "calls": [_call(call) for call in judged[:_MOST_CALLS]],
        "callsTotal": len(judged),
        "skipped": _skipped(result),
        "foot": _foot(result),
    }


def _call(call: CheckedCall) -> dict[str, Any]:
    worst = call.judgement.worst
    assert worst is not None
    share = call.shares.get(worst.place)
    return {
        "name": call.name,
        "operator": call.operator,
        "step": call.step,
        "rank": call.rank,
        "place": worst.place,
        "dtype": worst.dtype,
        "shape": list(worst.shape),
        "bad": call.is_bad,
        "reason": call.judgement.reason,
        "relative": worst.relative,
        "ratio": worst.ratio,
        "excess": worst.excess,
        "ulp": worst.max_ulp,
        "ulp99": worst.ulp_99,
        "introduced": None if share is None else share.introduced,
        "inherited": None if share is None else share.inherited,
    }


def _skipped(result: CheckResult) -> list[tuple[str, int, str]]:
    counts = Counter(call.judgement.reason for call in result.skipped)
    first: dict[str, str] = {}
    for call in result.skipped:
        first.setdefault(call.judgement.reason, call.where)
    return [(reason, count, first[reason]) for reason, count in counts.most_common(_MOST_REASONS)]


def _foot(result: CheckResult) -> str:
    return f"{result.dump}; {'; '.join(notes_of(result))}; msprobe {__version__}"
