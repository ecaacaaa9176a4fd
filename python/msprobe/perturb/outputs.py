# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a perturbed training: report.html, calls.csv, junit.xml and verdict.json
(docs/formats/perturb.md).
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.page import strict_json
from msprobe.native import __version__
from msprobe.perturb.console import notes_of
from msprobe.perturb.report import report_html

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.perturb.result import PerturbResult

VERDICT = "verdict.json"

_MOST_FRAGILE = 1000
_WORTH_NOTING = 16  # amplification of a healthy call that a comparison with other runs should know of

_COLUMNS = (
    "name", "module", "place", "dtype", "steps", "forward", "backward", "condition", "margin_bits",
    "gradient_margin_bits", "kind", "stage", "severity", "reason",
)  # fmt: skip


def write_outputs(result: PerturbResult, *, junit: bool = False) -> list[Path]:
    """Replaces those of an earlier run. Returns what a person may want to open, the most useful first. Raises
    IoError.
    """
    folder = make_directory(result.output)
    (folder / VERDICT).unlink(missing_ok=True)
    files = [folder / "report.html", folder / "calls.csv"]
    write_text(files[0], report_html(result))
    write_text(files[1], calls_csv(result))
    if junit:
        files.append(folder / "junit.xml")
        write_text(files[-1], junit_xml(result))
    files.append(folder / VERDICT)
    write_text(files[-1], verdict_json(result))  # last: where it is, everything is
    return files


def verdict_json(result: PerturbResult) -> str:
    """The text of verdict.json."""
    return strict_json(_content(result))


def _content(result: PerturbResult) -> dict[str, Any]:
    fragile = result.fragile
    return {
        "format": 1,
        "msprobe": __version__,
        "tool": "perturb",
        "status": result.status,
        "sentence": result.sentence,
        "fragile": [{**asdict(call), "place": call.place} for call in fragile[:_MOST_FRAGILE]],
        "counts": {
            "calls": result.seen,
            "measured": sum(len(call.steps) for call in result.calls.values()),
            "without_rounding": result.without_rounding,
            "fragile": len(fragile),
        },
        "modules": [asdict(one) for one in result.modules],
        "expected_loss": [
            {"step": step, "relative": value} for step, value in sorted(result.expected_loss.items())
        ],
        "amplification": _amplification(result),
        "left_out": result.left_out,
        "faults": result.faults,
        "notes": notes_of(result),
        "inputs": {"mode": result.mode, "steps": result.steps},
        "seconds": round(result.seconds, 3),
    }


def _amplification(result: PerturbResult) -> dict[str, float]:
    """By the names that a dump has for a call and its backward."""
    found = {}
    for call in result.calls.values():
        for stage, value in (("forward", call.forward), ("backward", call.backward)):
            if value is not None and math.isfinite(value) and value >= _WORTH_NOTING:
                found[f"{call.name.rpartition('.')[0]}.{stage}"] = value
    return found


def calls_csv(result: PerturbResult) -> str:
    """One line for each call, the fragile ones first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for call in sorted(result.calls.values(), key=lambda one: -one.severity):
        row: dict[str, Any] = {
            **asdict(call),
            "place": call.place,
            "steps": " ".join(map(str, call.steps)),
            "kind": call.kind or "",
        }
        writer.writerow(["" if row[name] is None else row[name] for name in _COLUMNS])
    return text.getvalue()


def junit_xml(result: PerturbResult) -> str:
    """A fragile call fails."""
    from msprobe.files.junit_xml import case, document, failure  # it loads much of the standard library

    cases = [
        case(
            f"perturb.{call.module or 'model'}",
            call.name,
            failure(call.kind, call.reason, "\n".join(call.stack)) if call.kind else "",
        )
        for call in result.calls.values()
    ]
    return document("msprobe perturb", cases, result.sentence, result.seconds)
