# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a check found, and the answer in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msprobe.replay.functions import parts_of
from msprobe.result import Result
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.replay.attribution import Share
    from msprobe.replay.judgement import CallJudgement, Setting
    from msprobe.result import Cell

_MOST_KINDS = 3  # of operators, in the sentence


@dataclass(frozen=True)
class CheckedCall:
    """A call of one rank and step."""

    step: int
    rank: int
    judgement: CallJudgement
    shares: dict[str, Share] = field(default_factory=dict)
    """By place: what it introduces and what it inherits."""
    no_shares: str = ""
    """Why there are none, where they were asked for."""

    @property
    def name(self) -> str:
        return self.judgement.name

    @property
    def operator(self) -> str:
        """ "Functional.softmax"."""
        return ".".join(filter(None, parts_of(self.name))) or self.name

    @property
    def is_bad(self) -> bool:
        return self.judgement.status in ("wrong", "nondeterministic")

    @property
    def where(self) -> str:
        return printable(f"{self.name} (step {self.step}, rank {self.rank})")


@dataclass(frozen=True)
class Culprit:
    """An operator with calls that are wrong."""

    operator: str
    status: str
    """ "wrong" or "nondeterministic"."""
    calls: list[CheckedCall]
    """The bad ones, the worst first."""
    checked: int
    """Calls of this operator in all."""

    @property
    def reason(self) -> str:
        return self.calls[0].judgement.reason


@dataclass(frozen=True, repr=False)
class CheckResult(Result):
    dump: Path
    output: Path | None
    setting: Setting
    operators: list[str]
    inputs_of: Path | None
    calls: list[CheckedCall]
    seconds: float

    @property
    def bad(self) -> list[CheckedCall]:
        return [call for call in self.calls if call.is_bad]

    @property
    def skipped(self) -> list[CheckedCall]:
        return [call for call in self.calls if call.judgement.status == "skipped"]

    @property
    def agrees(self) -> bool:
        """No operator is wrong, and at least one was checked."""
        return not self.bad and len(self.skipped) < len(self.calls)

    @property
    def exit_code(self) -> int:
        """0 all good, 1 some operator is wrong, 2 nothing could be checked."""
        if self.bad:
            return 1
        return 0 if self.agrees else 2

    @property
    def culprits(self) -> list[Culprit]:
        """The operators with bad calls, the worst first."""
        counts = Counter(call.operator for call in self.calls if call.judgement.status != "skipped")
        by_operator: dict[str, list[CheckedCall]] = {}
        for call in sorted(self.bad, key=badness, reverse=True):
            by_operator.setdefault(call.operator, []).append(call)
        return [
            Culprit(operator, calls[0].judgement.status, calls, counts[operator])
            for operator, calls in by_operator.items()
        ]

    def table(self) -> Sequence[dict[str, Cell]]:
        """The calls, bad ones first, then by the size of their errors; those that were not run last."""
        judged = self.worst(len(self.calls))
        rest = [call for call in self.calls if not call.judgement.outputs]
        return [
            {
                "step": call.step,
                "rank": call.rank,
                "call": call.name,
                "status": call.judgement.status,
                "reason": call.judgement.reason,
            }
            for call in [*judged, *rest]
        ]

    def worst(self, most: int) -> list[CheckedCall]:
        """The calls with the largest errors, bad ones first."""
        judged = [call for call in self.calls if call.judgement.outputs]
        return sorted(judged, key=badness, reverse=True)[:most]

    @property
    def sentence(self) -> str:
        """The answer for a person, in one line."""
        checked = len(self.calls) - len(self.skipped)
        left_out = f"; {len(self.skipped)} could not be run again" if self.skipped else ""
        if not checked:
            return f"No call could be run again: {printable(self.skipped[0].judgement.reason)}"
        culprits = self.culprits
        if not culprits:
            return f"No operator is wrong: {_plural(checked, 'call')} checked{left_out}"
        names = ", ".join(
            f"{one.operator} ({len(one.calls)} of {one.checked})" for one in culprits[:_MOST_KINDS]
        )
        more = f" and {len(culprits) - _MOST_KINDS} more" if len(culprits) > _MOST_KINDS else ""
        kind = "are" if len(culprits) > 1 else "is"
        word = "wrong" if any(one.status == "wrong" for one in culprits) else "not deterministic"
        return printable(
            f"{names}{more} {kind} {word}: {len(self.bad)} of {_plural(checked, 'call')} checked{left_out}"
        )


def badness(call: CheckedCall) -> tuple[bool, float, float]:
    worst = call.judgement.worst
    if worst is None:
        return call.is_bad, 0.0, 0.0
    return (call.is_bad, *worst.badness[1:])


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
