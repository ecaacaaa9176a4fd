# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What `msprobe compare` said about a pair, and whether it is right. Only this file knows the words of a
verdict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

# Statuses of verdict.json. Those of exit code 0, which say that the runs follow each other ...
SAME = ("equal", "rounding", "agree")
# ... and those of exit code 1. "differ" without a culprit: it is not explained.
DIFFER = ("differ",)
INCOMPLETE = ("incomplete",)

# What may come of a pair with a fault, the best first ...
FAULT_OUTCOMES = ("first", "named", "other", "unexplained", "incomplete", "same", "failed")
# ... and of a healthy one.
HEALTHY_OUTCOMES = ("clear", "incomplete", "accused", "failed")


@dataclass(frozen=True)
class Expectation:
    """The right answer to a pair with a fault. Any kind, any place is right for the first culprit."""

    kinds: frozenset[str]
    step: int
    places: tuple[str, ...]
    """Regular expressions; one is found in `name`, `module` or `operator`."""
    rank: int | None = None

    def is_met(self, culprit: dict[str, Any]) -> bool:
        where = " ".join(str(culprit.get(key) or "") for key in ("name", "module", "operator"))
        return (
            culprit.get("kind") in self.kinds
            and culprit.get("step") == self.step
            and (self.rank is None or culprit.get("rank") == self.rank)
            and any(re.search(place, where) for place in self.places)
        )


def culprit_of(finding: Any) -> dict[str, Any]:
    """A Finding of msprobe."""
    keys = ("kind", "name", "module", "operator", "step", "rank", "record")
    return {key: getattr(finding, key) for key in keys}


NOTHING = Expectation(frozenset(), -1, ())
"""No culprit is right."""


@dataclass(frozen=True)
class Answer:
    """What the verdict is. `fault`: why there is none."""

    status: str = ""
    culprits: tuple[dict[str, Any], ...] = ()
    fault: str = ""
    seconds: float = field(default=0.0, compare=False)
    """Of processor time."""

    @property
    def is_same(self) -> bool:
        return self.status in SAME

    def outcome(self, expected: Expectation | None) -> str:
        """One of FAULT_OUTCOMES, or of HEALTHY_OUTCOMES where nothing is expected."""
        if self.fault:
            return "failed"
        if self.status in INCOMPLETE:
            return "incomplete"
        if expected is None:
            return "clear" if self.is_same and not self.culprits else "accused"
        right = [expected.is_met(culprit) for culprit in self.culprits]
        if any(right):
            return "first" if right[0] and self.status in DIFFER else "named"
        if self.culprits:
            return "other"
        return "same" if self.is_same else "unexplained"

    def as_json(self) -> dict[str, Any]:
        found = {"status": self.status, "culprits": list(self.culprits), "seconds": round(self.seconds, 3)}
        return {**found, "fault": self.fault} if self.fault else found

    @classmethod
    def of_json(cls, cell: dict[str, Any]) -> Answer:
        return cls(cell["status"], tuple(cell["culprits"]), cell.get("fault", ""), cell["seconds"])

    @property
    def first(self) -> str:
        """The first culprit, in short."""
        if not self.culprits:
            return ""
        culprit = self.culprits[0]
        place = culprit.get("name") or culprit.get("module")
        return f"{culprit.get('kind')} {place}, step {culprit.get('step')}, rank {culprit.get('rank')}"
