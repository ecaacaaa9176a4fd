# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that led to no step (evaluation, generation, a dry run), where two runs that follow each other differ
in them. They have no part in the verdict: what they give to a step is data of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# model: {step that followed: (calls, digest of what they gave)}
Gaps = dict[str, dict[int, tuple[int, str]]]


def gaps_of(rows: Any) -> Gaps:
    """Of what run.rank{R}.json has, without what cannot be read."""
    found: Gaps = {}
    for row in rows if isinstance(rows, list) else ():
        before = row.get("before") if isinstance(row, dict) else None
        if not isinstance(before, dict) or not isinstance(row.get("model"), str):
            continue
        own = found.setdefault(row["model"][:300], {})
        for step, gap in before.items():
            if isinstance(gap, dict) and isinstance(gap.get("calls"), int) and step.isdigit():
                own[int(step[:18])] = gap["calls"], str(gap.get("results") or "")[:64]
    return found


def differences(
    reference: Mapping[int, Gaps], target: Mapping[int, Gaps], offset: int, *, values: bool
) -> list[str]:
    """The first of each model, in words. Both by rank.

    values: whether what the calls gave is compared, too: to the last bit, so where all else is equal.
    """
    found: dict[str, str] = {}
    for rank in sorted(set(reference) & set(target)):
        ours, theirs = target[rank], reference[rank]
        for model in [*theirs, *(name for name in ours if name not in theirs)]:
            pairs = _paired(theirs.get(model, {}), ours.get(model, {}), offset)
            said = next(_of_model(model, pairs, values=values), None)
            if said is not None:
                found.setdefault(model, said)
    return list(found.values())


def _paired(theirs: Any, ours: Any, offset: int) -> Iterator[tuple[int, Any, Any]]:
    """By the steps of the reference. What a resumed run did before its first step has no counterpart."""
    own = {step + offset: gap for step, gap in ours.items()}
    for step in sorted(set(theirs) | set(own)):
        if not offset or step > max(offset, 0):
            yield step, theirs.get(step, (0, "")), own.get(step, (0, ""))


def _of_model(model: str, pairs: Any, *, values: bool) -> Iterator[str]:
    for step, (known, before), (calls, after) in pairs:
        if calls != known:
            yield f"forward only: {model} is called {calls} times before step {step} (reference: {known})"
        elif values and before and after and before != after:
            yield f"forward only: {model} gives something else before step {step}"
