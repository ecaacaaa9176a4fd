# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison found: everything that the files, the report and the screen are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from msprobe.result import Result

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from msprobe._core import Finding, StepWalk, Verdict
    from msprobe.result import Cell

    Mode = Literal["real_data", "statistics", "md5"]
    Status = Literal["equal", "rounding", "differ", "incomplete"]


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


@dataclass(frozen=True)
class LeftOut:
    """Something that was not compared."""

    what: str
    """E.g. "step 3", "step 0, rank 2"."""
    reason: str
    """E.g. "only in the reference"."""
    is_difference: bool = True
    """The runs cannot be said to agree: one has what the other has not, or a part could not be compared."""


@dataclass(frozen=True, repr=False)
class CompareResult(Result):
    """A whole comparison, over all steps and ranks."""

    target: Path
    """The target, as the user gave it."""
    reference: Path
    """The reference."""
    output: Path
    """The folder of the results."""
    verdict: Verdict
    pairs: list[PairResult]
    """By step, then rank; of one step and rank dump.json before debug.json."""
    left_out: list[LeftOut] = field(default_factory=list)
    noise: list[Path] = field(default_factory=list)
    """Repeated runs of the reference."""
    seconds: float = 0

    @property
    def status(self) -> Status:
        """What the comparison says of the runs, see Status."""
        if self.verdict.status == "differ":
            return "differ"
        if any(one.is_difference for one in self.left_out):
            return "incomplete"
        return self.verdict.status

    @property
    def sentence(self) -> str:
        from msprobe.compare.verdict_file import sentence

        return sentence(self)

    def table(self) -> Sequence[dict[str, Cell]]:
        """The culprits, the surest first."""
        from msprobe.compare.verdict_file import culprits_of

        return [
            {
                "step": culprit.step,
                "rank": culprit.rank,
                "kind": culprit.kind,
                "name": culprit.name,
                "module": culprit.module,
                "reason": culprit.reason,
                "confidence": culprit.confidence,
                "source": next((frame.text for frame in culprit.top_frames(1)), ""),
            }
            for culprit in culprits_of(self, self.frames)
        ]

    @property
    def agree(self) -> bool:
        """Equal, or different by no more than rounding explains; and everything was compared."""
        return self.status in ("equal", "rounding")

    @property
    def worst_rank(self) -> int | None:
        """The rank with the largest share of failing rows; None: no row fails."""
        counts: dict[int, tuple[int, int]] = {}
        for pair in self.pairs:
            failing, rows = counts.get(pair.rank, (0, 0))
            counts[pair.rank] = failing + pair.summary.failing, rows + pair.summary.rows
        shares = {rank: failing / rows for rank, (failing, rows) in counts.items() if failing}
        return max(shares, key=lambda rank: (shares[rank], -rank), default=None)

    @property
    def first_step(self) -> int | None:
        """The step in which the runs part: that of the first culprit, else the first with a failing row.
        None: there is none.
        """
        if self.verdict.culprits:
            return self.verdict.culprits[0].step
        return min((pair.step for pair in self.pairs if pair.summary.failing), default=None)

    def frames(self, finding: Finding) -> list[str]:
        """The lines that called the place of a finding, the innermost first: of the target, or of the
        reference for a call that only this one makes. Empty where there is no stack.json, or it does not say.
        """
        return self.frames_of(
            finding.step, finding.rank, finding.record, of_reference=finding.is_of_reference
        )

    def frames_of(self, step: int, rank: int, record: str, *, of_reference: bool) -> list[str]:
        """The lines that called a record of one of the runs, the innermost first. Empty as in `frames`."""
        from msprobe.native import core

        pair = self.pair_of(step, rank)
        if pair is None or not record:
            return []
        stacks = core.default_stack_path(pair.reference if of_reference else pair.target)
        return core.stack_frames(stacks, record) if stacks is not None else []

    def pair_of(self, step: int, rank: int) -> PairResult | None:
        """The dumps of one step and rank; None: they were not compared."""
        return next((pair for pair in self.pairs if (pair.step, pair.rank) == (step, rank)), None)
