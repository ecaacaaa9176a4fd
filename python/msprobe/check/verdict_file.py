# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""verdict.json: the answer of a check for programs (docs/formats/check.md)."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import write_text
from msprobe.files.page import strict_json
from msprobe.native import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.check.result import CheckedCall, CheckResult, Culprit

_MOST_CALLS = 20  # of one operator
_MOST_SKIPPED = 1000


def write_verdict(path: Path, result: CheckResult) -> None:
    """Complete or absent. Raises IoError."""
    write_text(path, verdict_json(result))


def verdict_json(result: CheckResult) -> str:
    """The text of verdict.json."""
    return strict_json(_content(result))


def status_of(result: CheckResult) -> str:
    """ "good", "wrong" or "nothing"."""
    return ("good", "wrong", "nothing")[result.exit_code]


def _content(result: CheckResult) -> dict[str, object]:
    counts = Counter(call.judgement.status for call in result.calls)
    return {
        "format": 1,
        "msprobe": __version__,
        "status": status_of(result),
        "sentence": result.sentence,
        "operators": [_operator(culprit) for culprit in result.culprits],
        "counts": {
            "calls": len(result.calls),
            **{status: counts[status] for status in ("good", "wrong", "nondeterministic", "skipped")},
        },
        "skipped": [
            {"call": call.name, "step": call.step, "rank": call.rank, "reason": call.judgement.reason}
            for call in result.skipped[:_MOST_SKIPPED]
        ],
        "inputs": {
            "dump": str(result.dump),
            "judged": "operators" if result.operators else result.setting.source,
            "device": result.setting.device,
            "dtype": result.setting.dtype or None,
            "repeat": result.setting.repeat,
            "inputs_of": None if result.inputs_of is None else str(result.inputs_of),
            "operators": result.operators,
        },
        "seconds": round(result.seconds, 3),
    }


def _operator(culprit: Culprit) -> dict[str, Any]:
    return {
        "name": culprit.operator,
        "status": culprit.status,
        "reason": culprit.reason,
        "bad_calls": len(culprit.calls),
        "checked_calls": culprit.checked,
        "calls": [call_content(call) for call in culprit.calls[:_MOST_CALLS]],
    }


def call_content(call: CheckedCall) -> dict[str, Any]:
    judgement = call.judgement
    return {
        "name": call.name,
        "step": call.step,
        "rank": call.rank,
        "status": judgement.status,
        "reason": judgement.reason,
        "truth": judgement.truth,
        "terms": judgement.count,
        "outputs": [asdict(output) for output in judgement.outputs],
        "shares": {place: asdict(share) for place, share in call.shares.items()},
    }
