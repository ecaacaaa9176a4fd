# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""verdict.json of a comparison of RL key data. Format: docs/formats/rl.md."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from msprobe.files.page import strict_json
from msprobe.native import __version__, core

if TYPE_CHECKING:
    from msprobe.rl.result import KeyResult, LogProbResult, RlResult

_MOST = 1000  # entries of a list


def verdict_json(result: RlResult) -> str:
    return strict_json(content(result))


def content(result: RlResult) -> dict[str, Any]:
    first = result.first
    return {
        "format": 2,
        "msprobe": __version__,
        "verdict": result.verdict,
        "sentence": result.sentence,
        "rule": asdict(result.rule),
        "first": None if first is None else asdict(first),
        "findings": [asdict(finding) for finding in result.findings[:_MOST]],
        "finding_count": len(result.findings),
        "keys": [key_content(key) for key in result.keys],
        "rollout_and_training": [log_prob_content(one) for one in result.within],
        "weights": None
        if result.weights is None
        else {
            **asdict(result.weights),
            "differing": [asdict(one) for one in result.weights.differing[:_MOST]],
        },
        "notes": result.notes,
        "inputs": {"reference": result.reference, "target": result.target},
        "seconds": round(result.seconds, 3),
    }


def key_content(key: KeyResult) -> dict[str, Any]:
    return {
        "key": key.name,
        "kind": key.kind,
        "arrays": key.arrays,
        "differing_arrays": key.differing_arrays,
        "elements": key.elements,
        "same": key.same,
        "beyond": key.beyond,
        "max_absolute": key.max_absolute,
        "max_relative": key.max_relative,
        "first": None if key.first is None else {**asdict(key.first), "index": list(key.first.index)},
        "reshaped": [[asdict(place), *shapes] for place, *shapes in key.reshaped],
        "reference_only": [asdict(place) for place in key.reference_only[:_MOST]],
        "target_only": [asdict(place) for place in key.target_only[:_MOST]],
        "problems": [{**asdict(place), "problem": problem} for place, problem in key.problems],
        "by_step": [list(row) for row in key.by_step[:_MOST]],
        "table": None if key.table is None else key.table.name,
        "log_probs": None if key.log_probs is None else log_prob_content(key.log_probs),
    }


def log_prob_content(found: LogProbResult) -> dict[str, Any]:
    return {**asdict(found), "share": found.share, "ratio_bounds": list(core.RL_RATIO_BOUNDS)}
