# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The page of a comparison: the answer, keys and steps, log probabilities, weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.files.page import report_page
from msprobe.rl.console import ratio_labels
from msprobe.rl.verdict_file import key_content, log_prob_content

if TYPE_CHECKING:
    from msprobe.rl.result import RlResult

_MOST = 2000  # rows of a table; a page beyond would be slow to open


def report_html(result: RlResult) -> str:
    return report_page("rl", "RL key data", _data(result))


def _data(result: RlResult) -> dict[str, Any]:
    weights = result.weights
    return {
        "verdict": result.verdict,
        "sentence": result.sentence,
        "inputs": [
            [side, name]
            for side, name in (("reference", result.reference), ("target", result.target))
            if name
        ],
        "notes": result.notes,
        "findings": [[one.kind, one.sentence] for one in result.findings[:_MOST]],
        "findingTotal": len(result.findings),
        "tolerance": result.rule.log_prob_tolerance,
        "keys": [key_content(key) for key in result.keys],
        "logProbs": [
            log_prob_content(one)
            for one in [*(key.log_probs for key in result.keys), *result.within]
            if one is not None
        ],
        "ratioLabels": ratio_labels(),
        "weights": None
        if weights is None
        else {
            "sentence": weights.sentence,
            "sides": [weights.sent, weights.received],
            "rows": [[one.name, one.reason] for one in weights.differing[:_MOST]],
            "total": len(weights.differing),
            "notes": weights.notes,
        },
    }
