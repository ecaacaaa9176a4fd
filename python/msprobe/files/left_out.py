# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What an answer does not know: steps, ranks and files that were not compared, told as ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from msprobe.files.ranges import numbers

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable

_MOST_NAMED = 3  # in a sentence
MOST_LINES = 5


@dataclass(frozen=True)
class LeftOut:
    """Something that was not compared."""

    what: str
    """E.g. "step 3", "step 0, rank 2"."""
    reason: str
    """E.g. "only in the reference"."""
    is_difference: bool = True
    """The runs cannot be said to agree: one has what the other has not, or a part could not be compared."""
    step: int | None = None
    """None: it is not of a single step."""
    rank: int | None = None
    name: str = ""
    """Of a file, behind step and rank."""
    part: str = ""
    """Of a diagnosis, in front of all."""

    @property
    def content(self) -> dict[str, object]:
        """For files of JSON."""
        return {"what": self.what, "reason": self.reason, "is_difference": self.is_difference}

    def of_part(self, part: str) -> LeftOut:
        return replace(self, what=f"{part}: {self.what}" if self.what else part, part=part)

    def may_hold(self, step: int | None) -> bool:
        """Whether the cause of a difference at `step` may lie here: a cause is never later than what follows
        from it. None: the step is not known.
        """
        return self.is_difference and (step is None or self.step is None or self.step <= step)


def left_out(
    reason: str,
    step: int | None = None,
    rank: int | None = None,
    name: str = "",
    *,
    is_difference: bool = True,
) -> LeftOut:
    """One whose `what` is made of its place."""
    steps = () if step is None else (step,)
    ranks = () if rank is None else (rank,)
    return LeftOut(_words(steps, ranks, name), reason, is_difference, step, rank, name)


def only_in(side: str, step: int | None = None, rank: int | None = None, name: str = "") -> LeftOut:
    """side: "reference" or "target"."""
    return left_out(f"only in the {side}", step, rank, name)


def joined(found: Iterable[LeftOut]) -> list[LeftOut]:
    """With ranges: what differs in its ranks alone is one, and then what differs in its steps alone.

    Reasons that are the same but for their numbers, as those that name the file of a rank, are told once.
    """
    by_ranks = _grouped(found, lambda one: (_shape(one), one.step, one.rank is None))
    spans: dict[Hashable, list[list[LeftOut]]] = {}
    for group in by_ranks:
        first = group[0]
        of_ranks = tuple(sorted({one.rank for one in group if one.rank is not None}))
        # What has neither step nor rank is told by its own words.
        own = id(first) if first.step is None and first.rank is None else None
        spans.setdefault((_shape(first), of_ranks, first.step is None, own), []).append(group)
    result = []
    for groups in spans.values():
        members = [one for group in groups for one in group]
        first = members[0]
        if len(members) == 1:
            result.append(first)
            continue
        steps = sorted({one.step for one in members if one.step is not None})
        ranks = sorted({one.rank for one in members if one.rank is not None})
        others = len({one.reason for one in members}) - 1
        reason = f"{first.reason}, and {others} more of this kind" if others else first.reason
        plain = replace(first, what=_words(steps, ranks, first.name), reason=reason)
        result.append(plain.of_part(first.part) if first.part else plain)
    return result


def lines(found: Iterable[LeftOut], most: int = MOST_LINES, *, beside: str = "") -> list[str]:
    """For a person: "step 1, ranks 32-63 (only in the reference)". beside: a sentence, which may say some."""
    told = [f"{one.what} ({one.reason})" for one in joined(found)]
    told = [line for line in told if line not in beside]
    more = len(told) - most
    return [*told[:most], f"{more} more"] if more > 0 else told


def sentence(found: Iterable[LeftOut]) -> str:
    """The same within a sentence."""
    *first, last = lines(found, _MOST_NAMED) or [""]
    joint = " and " if last.endswith(" more") else ", "
    return joint.join([", ".join(first), last]) if first else last


def _words(steps: Collection[int], ranks: Collection[int], name: str) -> str:
    parts = [numbers("step", steps)] if steps else []
    parts += [numbers("rank", ranks)] if ranks else []
    return ", ".join([*parts, name] if name else parts)


def _shape(one: LeftOut) -> tuple[str, str, str, bool]:
    return re.sub(r"[0-9]+", "#", one.reason), one.part, one.name, one.is_difference


def _grouped(found: Iterable[LeftOut], key: Callable[[LeftOut], Hashable]) -> list[list[LeftOut]]:
    groups: dict[Hashable, list[LeftOut]] = {}
    for one in found:
        is_alone = one.step is None and one.rank is None
        groups.setdefault((id(one) if is_alone else None, key(one)), []).append(one)
    return list(groups.values())
