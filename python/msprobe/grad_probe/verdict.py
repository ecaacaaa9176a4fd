# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison of two gradient records says, and how verdict.json spells it.

verdict.json is one object:

    format       2; a reader should refuse a larger number
    msprobe      version that wrote the file
    verdict      "same", "differs", or "incomplete": no difference was seen, but a part could not be compared,
                 or only one run has a rank
    sentence     the verdict for a person, and what was left out because only one run has it
    rule         {"first_step_least", "largest_drop"}: a similarity below the first at the first step, or a
                 fall by more than the second against the step before, is a finding
    first        the finding to look at first: the earliest difference, and at that step the largest one;
                 without any difference the first part that could not be compared; null when there is none
    findings     all of them, ordered by step, then by size, each an object of
                   kind        "low_at_first_step", "drop", "missing" (one parameter at one step; all
                               that could not be put together for one reason, by the first of them) or
                               "unreadable" (a rank)
                   rank        null when single rank directories without a number were compared
                   step, parameter             null for "unreadable"
                   similarity, previous        null where there is none
                   reason      one sentence
    counts       ranks, unreadable_ranks, parameters (the most of any rank), compared (parameters x steps),
                 findings, suspicious_parameters (with "low_at_first_step" or "drop", over all ranks)
    ranks        for each rank: rank, steps, parameters, summary (similarity over all parameters, for each
                 step), findings, problem (null or why it is unreadable), steps_only_in_reference,
                 steps_only_in_target, parameters_only_in_reference, parameters_only_in_target (what only one
                 of the inputs has; the lists are
                 empty when the rank is unreadable)
    inputs       reference, target, and what only one of them has: ranks_only_in_reference,
                 ranks_only_in_target
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Literal

from msprobe.files.ranges import numbers
from msprobe.native import __version__
from msprobe.terminal.printable import printable

FIRST_STEP_LEAST = 0.97
LARGEST_DROP = 0.03

_DIFFERENCES = ("low_at_first_step", "drop")


@dataclass(frozen=True)
class Finding:
    """A place that points to a problem."""

    kind: Literal["low_at_first_step", "drop", "missing", "unreadable"]
    rank: int | None
    step: int | None
    parameter: str | None
    similarity: float | None
    previous: float | None
    reason: str

    @property
    def is_difference(self) -> bool:
        """Whether the gradients differ here; else they could not be compared."""
        return self.kind in _DIFFERENCES

    @property
    def size(self) -> float:
        """How far the similarity fell."""
        return (1.0 if self.previous is None else self.previous) - (
            1.0 if self.similarity is None else self.similarity
        )

    @property
    def line(self) -> str:
        """One line for a person."""
        return printable(self.reason if self.rank is None else f"rank {self.rank}: {self.reason}")


@dataclass(frozen=True)
class RankSummary:
    """One compared rank."""

    rank: int | None
    steps: list[int]
    parameters: int
    compared: int  # parameters x steps that both sides have
    summary: list[float | None]  # for each step
    findings: int
    problem: str | None = None  # why the rank is unreadable
    # What only one side has. A step is left out of the comparison; a parameter is a finding at each step.
    steps_only_in_reference: list[int] = field(default_factory=list)
    steps_only_in_target: list[int] = field(default_factory=list)
    parameters_only_in_reference: list[str] = field(default_factory=list)
    parameters_only_in_target: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Inputs:
    """What was compared."""

    reference: str
    target: str
    ranks_only_in_reference: list[int]
    ranks_only_in_target: list[int]


@dataclass(frozen=True)
class Verdict:
    """The whole answer. `findings` is ordered."""

    inputs: Inputs
    ranks: tuple[RankSummary, ...]
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Literal["same", "differs", "incomplete"]:
        if any(finding.is_difference for finding in self.findings):
            return "differs"
        ranks = self.inputs.ranks_only_in_reference or self.inputs.ranks_only_in_target
        return "incomplete" if self.findings or ranks else "same"

    @property
    def first(self) -> Finding | None:
        """The finding to look at first."""
        return next(
            (finding for finding in self.findings if finding.is_difference), next(iter(self.findings), None)
        )

    @property
    def suspicious(self) -> list[Finding]:
        """The first difference of each parameter of each rank, in order."""
        seen: dict[tuple[int | None, str | None], Finding] = {}
        for finding in self.findings:
            if finding.is_difference:
                seen.setdefault((finding.rank, finding.parameter), finding)
        return list(seen.values())

    @property
    def not_compared(self) -> list[Finding]:
        """What differs must not hide a file that cannot be read."""
        return [finding for finding in self.findings if not finding.is_difference]

    @property
    def only_in_1(self) -> str:
        """The ranks and steps that only run 1 has, for a person: "rank 7, steps 4-9"; "" for none."""
        return _left_out(
            self.inputs.ranks_only_in_reference, [rank.steps_only_in_reference for rank in self._readable]
        )

    @property
    def only_in_2(self) -> str:
        return _left_out(
            self.inputs.ranks_only_in_target, [rank.steps_only_in_target for rank in self._readable]
        )

    @property
    def _readable(self) -> list[RankSummary]:
        return [rank for rank in self.ranks if rank.problem is None]

    @property
    def sentence(self) -> str:
        sides = ((self.only_in_1, 1), (self.only_in_2, 2))
        left_out = ", ".join(f"{what} (only in run {side})" for what, side in sides if what)
        return self._answer + (f"; not compared: {left_out}" if left_out else "")

    @property
    def _answer(self) -> str:
        first = self.first
        if first is None:
            compared = sum(rank.compared for rank in self.ranks)
            return f"The two runs agree: {compared} gradients compared, none suspicious"
        if first.is_difference:
            rank = "" if first.rank is None else f" of rank {first.rank}"
            parameter = printable(str(first.parameter))
            return f"The two runs diverge at step {first.step}: parameter {parameter}{rank}"
        return f"No difference was seen, but {_count(len(self.findings), 'part')} could not be compared"

    def to_json(self) -> str:
        first = self.first
        content = {
            "format": 2,
            "msprobe": __version__,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "rule": {"first_step_least": FIRST_STEP_LEAST, "largest_drop": LARGEST_DROP},
            "first": None if first is None else asdict(first),
            "findings": [asdict(finding) for finding in self.findings],
            "counts": {
                "ranks": len(self.ranks),
                "unreadable_ranks": sum(rank.problem is not None for rank in self.ranks),
                "parameters": max((rank.parameters for rank in self.ranks), default=0),
                "compared": sum(rank.compared for rank in self.ranks),
                "findings": len(self.findings),
                "suspicious_parameters": len(self.suspicious),
            },
            "ranks": [asdict(rank) for rank in self.ranks],
            "inputs": asdict(self.inputs),
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


def number_or_none(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """By step, then by how far the similarity fell, then by rank; unreadable ranks, which have no step, at
    the end.
    """
    return tuple(
        sorted(
            findings,
            key=lambda f: (
                math.inf if f.step is None else f.step,
                not f.is_difference,
                -f.size,
                -1 if f.rank is None else f.rank,
            ),
        )
    )


def _left_out(ranks: list[int], steps_of_ranks: list[list[int]]) -> str:
    """`steps_of_ranks`: for each compared rank the steps that were left out."""
    parts = [numbers("rank", ranks)] if ranks else []
    with_steps = [steps for steps in steps_of_ranks if steps]
    if with_steps and all(steps == with_steps[0] for steps in steps_of_ranks):
        parts.append(numbers("step", with_steps[0]))
    elif with_steps:
        parts.append(f"some steps of {_count(len(with_steps), 'rank')}")
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
