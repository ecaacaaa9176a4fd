# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison found: everything that the files, the report and the screen are made of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from msprobe.compare.culprit import culprits_of, difference, may_follow
from msprobe.files.left_out import sentence
from msprobe.files.ranges import which_ranks
from msprobe.result import Result
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from msprobe._core import Finding, Verdict
    from msprobe.compare.culprit import Culprit
    from msprobe.compare.pair_result import PairResult
    from msprobe.files.left_out import LeftOut
    from msprobe.result import Cell

    Status = Literal["equal", "rounding", "differ", "incomplete"]

# Of a difference that may follow from what was not compared: two explanations, and nothing tells which.
_EVEN = 0.5


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
    offset: int = 0
    """The step of the reference at which the target begins. Steps are those of the reference."""
    fuzzy: bool = False
    """Names were paired without counts."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of items that the user paired."""

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
        return self.answer(self._of_all_ranks(culprits_of(self.verdict)))

    @cached_property
    def culprits(self) -> list[Culprit]:
        """What is to blame, with its lines, the surest first."""
        return self._of_all_ranks(culprits_of(self.verdict, self.frames))

    def _of_all_ranks(self, culprits: list[Culprit]) -> list[Culprit]:
        """What several ranks have is one, and none is surer than what is missing allows."""
        found: dict[tuple[int, str, str], Culprit] = {}
        for one in culprits:
            found.setdefault((one.step, one.kind, one.name), one)
        ranks: dict[tuple[int, str, str], set[int]] = {place: {one.rank} for place, one in found.items()}
        steps = {one.step for one in culprits}
        for pair in self.pairs if self.counts["ranks"] > 1 else ():
            for finding in pair.walk.findings if pair.step in steps else ():
                place = pair.step, finding.kind, finding.name
                if place in ranks:
                    ranks[place].add(pair.rank)
        return [
            replace(
                one,
                confidence=min(one.confidence, _EVEN)
                if may_follow(one) and self.missing_at(one.step)
                else one.confidence,
                ranks=tuple(sorted(ranks[place])),
            )
            for place, one in found.items()
        ]

    def missing_at(self, step: int) -> list[LeftOut]:
        """What was not compared and may hold the cause of a difference at this step."""
        return [one for one in self.left_out if one.may_hold(step)]

    def answer(self, culprits: list[Culprit]) -> str:
        """`sentence` with culprits of which the lines are known."""
        if not culprits:
            return _answer(self)
        first = culprits[0]
        missing = self.missing_at(first.step)
        total = len({pair.rank for pair in self.pairs})
        ranks = which_ranks(first.ranks or [first.rank], total) if total > 1 or missing else ""
        return difference(first.plain, first.step, ranks, sentence(missing))

    @property
    def counts(self) -> dict[str, int]:
        """Of all pairs: steps, ranks, pairs, rows, matched, unmatched, only_in_reference, failing."""
        total: Counter[str] = Counter()
        for pair in self.pairs:
            total.update(rows=pair.summary.rows, matched=pair.summary.matched, failing=pair.summary.failing)
            total.update(only_in_reference=pair.summary.reference_only)
        return {
            "steps": len({pair.step for pair in self.pairs}),
            "ranks": len({pair.rank for pair in self.pairs}),
            "pairs": len(self.pairs),
            "rows": total["rows"],
            "matched": total["matched"],
            "unmatched": total["rows"] - total["matched"],
            "only_in_reference": total["only_in_reference"],
            "failing": total["failing"],
        }

    def table(self) -> Sequence[dict[str, Cell]]:
        """The culprits, the surest first."""
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
            for culprit in self.culprits
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
        """The step in which the runs diverge: that of the first culprit, else the first with a failing row.
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

    def telling_ranks(self, culprits: Sequence[Culprit], step: int | None = None) -> set[int]:
        """Those of the culprits of a step, and one without a finding to look at beside them: they show what
        all do. step: None: the first that has a culprit.
        """
        if step is None:
            step = min((culprit.step for culprit in culprits), default=None)
        pairs = [pair for pair in self.pairs if step is None or pair.step == step]
        shown = {culprit.rank for culprit in culprits if culprit.step == step}
        others = [pair for pair in pairs if pair.rank not in shown]
        peer = min(others, key=lambda pair: bool(pair.walk.findings), default=None)
        return shown if peer is None else {*shown, peer.rank}


# ---- the sentence where nothing is to blame


def _answer(result: CompareResult) -> str:
    counts = result.counts
    rows = _plural(counts["matched"], "row")
    steps = f"{_plural(counts['steps'], 'step')} and {_plural(counts['ranks'], 'rank')}"
    compared = f"{rows} of {steps}, {_evidence(result)}"
    if result.verdict.status == "differ":
        return printable(
            f"The runs differ by more than rounding, and no call explains it: {_stretch(result)}"
        )
    missing = [one for one in result.left_out if one.is_difference]
    if missing:
        return printable(
            f"What could be compared agrees ({compared}), but not all could be: {sentence(missing)}"
        )
    alone = counts["unmatched"] + counts["only_in_reference"]
    without = f"; {alone:,} more items are in one run only" if alone else ""
    if result.status == "equal":
        return f"The runs are equal: {compared}"
    return f"The runs agree but for rounding: {compared}{_largest(result)}{without}"


def _evidence(result: CompareResult) -> str:
    """With what the runs were compared: what they cannot be told apart by."""
    names = {
        "real_data": "by all elements",
        "md5": "by checksums",
        "statistics": "by statistics and sketches",
    }
    modes = sorted({names[pair.mode] for pair in result.pairs})
    unseen = sum(pair.walk.unseen for pair in result.pairs if pair.mode != "md5")
    hidden = f"; {_plural(unseen, 'tensor')} hidden by NaN or infinities" if unseen else ""
    return " and ".join(modes) + hidden


def _largest(result: CompareResult) -> str:
    """How large the differences are, and where they are largest."""
    largest = max((pair.walk.largest for pair in result.pairs), default=(0.0, ""))
    gradient = max((pair.walk.largest_gradient for pair in result.pairs), default=(0.0, ""))
    parts = [f"results by at most {largest[0]:.1g} ({largest[1]})"] if largest[0] > 0 else []
    parts += [f"gradients by at most {gradient[0]:.1g} ({gradient[1]})"] if gradient[0] > 0 else []
    return printable(f"; off are {', '.join(parts)}" if parts else "")


def _stretch(result: CompareResult) -> str:
    after = result.verdict.last_agreeing or "the beginning"
    return f"somewhere after {after} and up to {result.verdict.first_differing}"


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
