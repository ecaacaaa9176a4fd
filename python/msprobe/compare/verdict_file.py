# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""verdict.json: the answer of a comparison for programs (docs/formats/verdict.md)."""

from __future__ import annotations

from dataclasses import asdict

from msprobe.files.atomic_file import write_text
from msprobe.files.left_out import joined
from msprobe.files.page import strict_json
from msprobe.native import __version__

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.compare.culprit import Culprit
    from msprobe.compare.pair_result import PairResult
    from msprobe.compare.result import CompareResult


def verdict_json(result: CompareResult, culprits: list[Culprit]) -> str:
    """The text of verdict.json."""
    return strict_json(_content(result, culprits))


def write_verdict(path: Path, result: CompareResult, culprits: list[Culprit]) -> None:
    """Complete or absent. Raises IoError."""
    write_text(path, verdict_json(result, culprits))


def _content(result: CompareResult, culprits: list[Culprit]) -> dict[str, object]:
    return {
        "format": 2,
        "msprobe": __version__,
        "status": result.status,
        "sentence": result.answer(culprits),
        "culprits": [culprit_content(culprit) for culprit in culprits],
        "notes": result.verdict.notes,
        "counts": result.counts,
        "worst_rank": result.worst_rank,
        "first_step": result.first_step,
        "pairs": [_pair_content(pair) for pair in result.pairs],
        "left_out": [one.content for one in joined(result.left_out)],
        "inputs": {
            "target": str(result.target),
            "reference": str(result.reference),
            "output": str(result.output),
            "noise": [str(path) for path in result.noise],
            "offset": result.offset,
            "fuzzy": result.fuzzy,
            "names": dict(result.names),
        },
    }


def culprit_content(culprit: Culprit) -> dict[str, object]:
    content = asdict(culprit)
    for key in ("record", "reference_record", "texts"):
        del content[key]
    if culprit.replay is None:
        del content["replay"]
    return content


def _pair_content(pair: PairResult) -> dict[str, object]:
    first = next(iter(pair.walk.findings), None)
    return {
        "step": pair.step,
        "rank": pair.rank,
        "files": {"target": str(pair.target), "reference": str(pair.reference)},
        "mode": pair.mode,
        "debug": pair.is_debug,
        "table": None if pair.table is None else str(pair.table),
        "rows": pair.summary.rows,
        "matched": pair.summary.matched,
        "aligned": pair.summary.aligned,
        "failing": pair.summary.failing,
        "only_in_reference": pair.summary.reference_only,
        "first_failing_row": pair.summary.first_failing,
        "compared": pair.walk.compared,
        "equal": pair.walk.equal,
        "largest_difference": pair.walk.largest[0],
        "largest_gradient_difference": pair.walk.largest_gradient[0],
        "findings": len(pair.walk.findings),
        "first_finding": None
        if first is None
        else {"kind": first.kind, "name": first.name, "module": first.module, "reason": first.reason},
    }
