# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Results of comparisons, made by hand, for the tests of what is written about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msprobe.compare.finding import Finding, Phase
from msprobe.compare.pair_walk import PairWalk
from msprobe.compare.result import CompareResult, LeftOut, PairResult, ReportRows, TableSummary
from msprobe.compare.verdict import Verdict

STACK = [
    "File /venv/lib/site-packages/torch/nn/functional.py, line 7, in linear, \n return F.linear(x)",
    "File /home/me/my model/net.py, line 12, in forward, \n y = self.fc(x)",
    "File /home/me/train.py, line 90, in <module>, \n main()",
]


def finding(**changes: Any) -> Finding:
    values: dict[str, Any] = {
        "kind": "operator",
        "phase": Phase.CALLS,
        "name": "Functional.gelu.3.forward",
        "reason": "what goes into Functional.gelu.3.forward agrees, output.0 does not",
        "order": 7,
        "module": "blocks.0.mlp",
        "operator": "Functional.gelu",
        "distance": 1000.0,
        "metrics": {"rounding_errors_in": 0.0, "rounding_errors_out": 1000.0},
        "record": "Functional.gelu.3.forward",
    }
    return Finding(**{**values, **changes})


def pair(
    step: int = 0,
    rank: int = 0,
    findings: list[Finding] | None = None,
    report: ReportRows | None = None,
    **summary: Any,
) -> PairResult:
    rows = report.rows if report else 10
    folder = Path(f"step{step}/rank{rank}")
    return PairResult(
        step=step,
        rank=rank,
        mode="statistics",
        target=folder / "dump.json",
        golden=folder / "dump.json",
        table=Path(f"/out/compare_result_{step}_{rank}.xlsx"),
        advice=None,
        summary=TableSummary(**{"rows": rows, "matched": rows, **summary}),
        walk=PairWalk(step, rank, findings or [], compared=4, equal=4 - len(findings or [])),
        report=report,
    )


def result(
    pairs: list[PairResult],
    culprits: list[Finding] | None = None,
    *,
    noisy: bool = False,
    notes: list[str] | None = None,
    left_out: list[LeftOut] | None = None,
) -> CompareResult:
    verdict = Verdict(culprits=culprits or [], noisy=noisy, notes=notes or [])
    return CompareResult(Path("/run/b"), Path("/run/a"), Path("/out"), verdict, pairs, left_out or [])


def report_rows(
    names: list[str],
    errors: list[float] | None = None,
    *,
    message: str = "",
    total: int | None = None,
) -> ReportRows:
    """As the native report_rows() gives them: each name is a record with one output."""
    count = len(names)
    errors = [0.0] * count if errors is None else errors
    strings = [*dict.fromkeys(names), ".output.0", "torch.float32 [2, 3]", "Warning", message]
    first = len(strings) - 4
    place = {name: index for index, name in enumerate(strings[:first])}
    same = [-1] * count
    columns: dict[str, list[Any]] = {
        "strings": strings,
        "row": [min(index, 1) for index in range(count)],
        "record": [place[name] for name in names],
        "item": [first] * count,
        "otherRecord": [-2 if error == -2 else -1 for error in errors],
        "otherItem": [-2 if error == -2 else -1 for error in errors],
        "type": [first + 1] * count,
        "otherType": same,
        "error": errors,
        "relative": [-2] * count,
        "result": [first + 2] * count,
        "message": [first + 3] * count,
        "colour": [0] * count,
        "match": [0 if error == -2 else 1 for error in errors],
    }
    measured = [error for error in errors if error > 0]
    return ReportRows(
        rows=total or count,
        shown=count,
        differing=len(measured) + errors.count(-1),
        unmeasured=errors.count(-1),
        worst=max(measured, default=0.0),
        json=json.dumps(columns, separators=(",", ":")),
    )
