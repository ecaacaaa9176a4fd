# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison found of two dumps of one step and rank."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Literal

    from msprobe._core import StepWalk

    Mode = Literal["real_data", "statistics", "md5"]


@dataclass(frozen=True)
class TableSummary:
    """Counts of a result table."""

    rows: int = 0
    matched: int = 0
    aligned: int = 0
    """Matched under another name or in another place."""
    failing: int = 0
    """Rows whose result is "Warning", "Different" or "No"."""
    red: int = 0
    yellow: int = 0
    reference_only: int = 0
    """Items that only the reference has."""
    first_failing: int | None = None
    """Row, from 0."""
    first_failing_name: str = ""


@dataclass(frozen=True)
class ReportRows:
    """The rows of a pair for report.html; cpp/private/msprobe/compare_report.h has the fields."""

    rows: int
    shown: int
    differing: int
    unmeasured: int
    worst: float
    json: str


@dataclass(frozen=True)
class PairResult:
    """Two dumps of one step and rank."""

    step: int
    rank: int
    mode: Mode
    target: Path
    """dump.json or debug.json of the target."""
    reference: Path
    """That of the reference."""
    table: Path | None
    """The result table; None: the target recorded nothing, so there is none."""
    advice: Path | None
    """mindstudio-probe's advisor file; None: not wanted, or no table."""
    summary: TableSummary
    walk: StepWalk
    report: ReportRows | None = None
    """None: no report is wanted."""

    @property
    def is_debug(self) -> bool:
        """Of what save() was given."""
        return self.target.name.startswith("debug")
