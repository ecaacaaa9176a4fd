# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Results of comparisons, made by hand, for the tests of what is written about them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.compare.pair_result import PairResult, ReportRows, TableSummary
from msprobe.compare.result import CompareResult
from msprobe.files.left_out import LeftOut
from msprobe.native import core

if TYPE_CHECKING:
    from msprobe._core import Finding

STACK = [
    "File /venv/lib/site-packages/torch/nn/functional.py, line 7, in linear, \n return F.linear(x)",
    "File /home/me/my model/net.py, line 12, in forward, \n y = self.fc(x)",
    "File /home/me/train.py, line 90, in <module>, \n main()",
]


# In the order of FindingKind and Phase (cpp/include/msprobe/verdict.h).
KINDS = """
    input_data weight buffer argument module_attribute operator in_place missing_call extra_call gradient
    reduction clipping optimizer_setting optimizer_state update randomness
""".split()  # noqa: SIM905
CALLS = 5


@dataclass
class Verdict:
    """What core.judge() gives, with the answer that a test wants."""

    status: str = "equal"
    culprits: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    last_agreeing: str = ""
    first_differing: str = ""
    has_noise: bool = False


@dataclass
class Walk:
    """What DumpPair.walk() gives, as far as reports read it."""

    findings: list[Finding]
    compared: int = 4
    equal: int = 4
    unseen: int = 0
    largest: tuple[float, str] = (0.0, "")
    largest_gradient: tuple[float, str] = (0.0, "")


_EMPTY: dict[str, Any] = {
    **dict.fromkeys(("step", "rank", "compared", "equal", "differing", "unseen"), 0),
    **dict.fromkeys(("largest", "largest_gradient", "closest"), (0.0, "")),
    **dict.fromkeys(("last_agreeing", "first_differing", "stranger"), ""),
    "divided_otherwise": False,
    "arriving": math.inf,
    "losses_agree": False,
    "other_names": {},
    "given": {},
    "has_state": False,
    "unit": 0.0,
}


def finding(**changes: Any) -> Finding:
    """`distance`: how far off; infinite: it has no measure. Names from files are UTF-8."""
    values: dict[str, Any] = {
        "kind": "operator",
        "phase": CALLS,
        "name": "Functional.gelu.3.forward",
        "because": [("result_of_equal_inputs", ["Functional.gelu.3.forward", "output.0"])],
        "explanation": {
            "rule": "operator",
            "operator": "gelu",
            "sources": [{"name": "Functional.gelu.3.forward.input.0", "error": 0.0, "gain": 2.0}],
            "own": 1e-6,
            "tolerance": 1e-6,
            "tolerance_of_bias": 1e-8,
            "tolerance_of_element": 0.0,
            "limit": 3e-6,
        },
        "order": 7.0,
        "step": 0,
        "rank": 0,
        "module": "blocks.0.mlp",
        "operator": "Functional.gelu",
        "distance": 1e-3,
        "explained": 1e-6,
        "strength": 300.0,
        "effect": math.nan,
        "target_value": "",
        "reference_value": "",
        "record": "Functional.gelu.3.forward",
        "is_of_reference": False,
        "exact_before": True,
        "is_hidden": False,
        "counts_later": False,
        **changes,
    }
    if "reason" in values:  # whatever a name is, it stands in the sentence
        values["because"] = [("no_call_made_it", [values.pop("reason")])]
    values["because"] = [
        (word, [text.encode("utf-8", "replace").decode() for text in about])
        for word, about in values["because"]
    ]
    values = {
        key: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for key, value in values.items()
    }
    far = values["distance"]
    values["distance"] = (far, far, far, far, 0.0, 0.0, 1.0, False)
    values["operator_name"] = values.pop("operator")
    values["kind"] = KINDS.index(values["kind"])
    plain = {**_EMPTY, "findings": [values]}
    return core.StepWalk.of_plain(plain).findings[0]


def pair(
    step: int = 0,
    rank: int = 0,
    findings: list[Finding] | None = None,
    report: ReportRows | None = None,
    walk: Walk | None = None,
    **summary: Any,
) -> PairResult:
    rows = report.rows if report else 10
    folder = Path(f"step{step}/rank{rank}")
    return PairResult(
        step=step,
        rank=rank,
        mode="statistics",
        target=folder / "dump.json",
        reference=folder / "dump.json",
        table=Path(f"/out/compare_result_{step}_{rank}.xlsx"),
        advice=None,
        summary=TableSummary(**{"rows": rows, "matched": rows, **summary}),
        walk=walk or Walk(findings or [], equal=4 - len(findings or [])),
        report=report,
    )


def result(
    pairs: list[PairResult],
    culprits: list[Finding] | None = None,
    *,
    status: str = "",
    notes: list[str] | None = None,
    left_out: list[LeftOut] | None = None,
    **stretch: str,
) -> CompareResult:
    """`status`: of the verdict. `stretch`: last_agreeing and first_differing."""
    verdict = Verdict(
        status=status or ("differ" if culprits else "equal"),
        culprits=culprits or [],
        notes=notes or [],
        has_noise=status == "rounding" or bool(culprits),
        **stretch,
    )
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
