# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison found: everything that the files, the report and the screen are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Literal

    from msprobe._core import TableSummary
    from msprobe.compare.pair_walk import PairWalk
    from msprobe.compare.verdict import Verdict

    Mode = Literal["real_data", "statistics", "md5"]


@dataclass(frozen=True)
class PairResult:
    """Two dumps of one step and rank."""

    step: int
    rank: int
    mode: Mode
    target: Path
    """dump.json or debug.json of the run under test."""
    golden: Path
    """That of the reference."""
    table: Path | None
    """The result table; None: nothing of one run is in the other, so there is none."""
    advice: Path | None
    """The existing tool's advisor file; None: not wanted, or no table."""
    summary: TableSummary
    walk: PairWalk

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


@dataclass(frozen=True)
class CompareResult:
    """A whole comparison, over all steps and ranks."""

    target: Path
    """The run under test, as the user gave it."""
    golden: Path
    """The reference."""
    output: Path
    """The folder of the results."""
    verdict: Verdict
    pairs: list[PairResult]
    """By step, then rank; of one step and rank dump.json before debug.json."""
    left_out: list[LeftOut] = field(default_factory=list)
    tolerance: str = "default"
    """ "default" or "dtype"."""
    noise: list[Path] = field(default_factory=list)
    """Repeated runs of the reference."""
    seconds: float = 0

    @property
    def agree(self) -> bool:
        """No culprit, and nothing that could not be compared."""
        return self.verdict.agree and not any(one.is_difference for one in self.left_out)

    @property
    def worst_rank(self) -> int | None:
        """The rank with the largest share of failing rows; None: no row fails."""
        failing: dict[int, list[int]] = {}
        for pair in self.pairs:
            counts = failing.setdefault(pair.rank, [0, 0])
            counts[0] += pair.summary.failing
            counts[1] += pair.summary.rows
        shares = {rank: bad / max(rows, 1) for rank, (bad, rows) in failing.items() if bad}
        return max(shares, key=lambda rank: (shares[rank], -rank), default=None)

    @property
    def first_step(self) -> int | None:
        """The first step in which the runs part: that of the first culprit, else the first with a failing row;
        None: there is none.
        """
        if self.verdict.culprits:
            return self.verdict.culprits[0].step
        return min((pair.step for pair in self.pairs if pair.summary.failing), default=None)
