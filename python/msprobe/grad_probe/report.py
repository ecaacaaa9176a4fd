# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""report.html: the comparison as one page that needs nothing but a browser.

What the data looks like is the concern of this file and of viewer/src/report/gradients.js only.
"""

from __future__ import annotations

import base64
import sys
from array import array
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from msprobe.files.page import report_page

if TYPE_CHECKING:
    from msprobe.grad_probe.verdict import Verdict

# A page beyond this would be slow to open. What is left out is in similarities.csv and verdict.json, and the
# page says so.
_MOST_CELLS = 20_000_000
_MOST_FINDINGS = 20_000

# A cell in 16 bits: a similarity in parts of 1 / _ONE, where only a full agreement is _ONE; or one of the two
# others.
_ONE = 65_000
_ABSENT = 65_535  # neither run has the parameter at this step
_MISSING = 65_534  # it could not be compared


@dataclass(frozen=True)
class RankCells:
    """The similarities of one rank."""

    rank: int | None
    steps: list[int]
    names: list[str]
    values: list[list[float | None]]  # by name, then by step
    problems: list[tuple[str, int, str]]  # name, step, why it could not be compared


def report_html(verdict: Verdict, ranks: list[RankCells]) -> str:
    """The text of the page."""
    return report_page("gradients", "Gradient comparison", _data(verdict, ranks))


def _data(verdict: Verdict, ranks: list[RankCells]) -> dict[str, object]:
    cells = {rank.rank: rank for rank in ranks}
    # Ranks with findings come first when there is not room for all.
    order = sorted(verdict.ranks, key=lambda rank: -rank.findings)
    room = _MOST_CELLS
    shown = set()
    for rank in order:
        room -= rank.parameters * len(rank.steps)
        if rank.rank in cells and room >= 0:
            shown.add(rank.rank)
    return {
        "verdict": verdict.verdict,
        "sentence": verdict.sentence,
        "first": None if verdict.first is None else asdict(verdict.first),
        "inputs": asdict(verdict.inputs),
        "onlyIn1": verdict.only_in_1,
        "onlyIn2": verdict.only_in_2,
        "one": _ONE,
        "absent": _ABSENT,
        "missing": _MISSING,
        "findingsTotal": len(verdict.findings),
        "suspicious": len(verdict.suspicious),
        "findings": [
            [f.kind, f.rank, f.step, f.parameter, f.similarity, f.previous, f.reason]
            for f in verdict.findings[:_MOST_FINDINGS]
        ],
        "ranks": [
            {
                "rank": rank.rank,
                "steps": rank.steps,
                "summary": rank.summary,
                "parameters": rank.parameters,
                "compared": rank.compared,
                "findings": rank.findings,
                "problem": rank.problem,
                "parametersOnlyIn1": len(rank.parameters_only_in_reference),
                "parametersOnlyIn2": len(rank.parameters_only_in_target),
                "names": cells[rank.rank].names if rank.rank in shown else [],
                "cells": _packed(cells[rank.rank]) if rank.rank in shown else "",
            }
            for rank in verdict.ranks
        ],
    }


def _packed(rank: RankCells) -> str:
    """All cells, name by name, as 16-bit little-endian numbers in base64."""
    codes = array("H")
    for row in rank.values:
        codes.extend([_ABSENT if value is None else _code(value) for value in row])
    names = {name: index for index, name in enumerate(rank.names)}
    steps = {step: index for index, step in enumerate(rank.steps)}
    for name, step, _ in rank.problems:
        codes[names[name] * len(rank.steps) + steps[step]] = _MISSING
    if sys.byteorder == "big":
        codes.byteswap()
    return base64.b64encode(codes.tobytes()).decode("ascii")


def _code(value: float) -> int:
    # Rounded down, so that 1 means full agreement; the small number keeps 0.97 at 0.97.
    return _ONE if value >= 1 else min(int(value * _ONE + 1e-6), _ONE - 1)
