# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Differences of settings, held against what the dumps of both runs show first."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.diagnose.cause import Cause

# Two quotients are equal where they differ by less than a single-precision number can hold.
_EQUAL = 1e-6
# A value of the dump that a setting of the program explains: as sure as any answer is.
_CONFIRMED = 0.95


def confirmed(settings: Sequence[Cause], dumped: Sequence[Cause]) -> Cause | None:
    """The setting whose values the dump shows in the step where it first differs: that is the cause, and
    where the dump shows it is its place. None where no setting has such values.

    dumped: what the dump says, the best first.
    """
    for seen in dumped:
        found = [one for one in settings if is_same_change(one.values, seen.values)]
        if found and seen.step == dumped[0].step:
            return _seen_at(max(found, key=lambda one: one.confidence), seen)
    return None


def _seen_at(best: Cause, seen: Cause) -> Cause:
    return replace(
        best,
        reason=f"{best.reason}; {seen.said}",
        confidence=max(best.confidence, _CONFIRMED),
        step=seen.step,
        rank=seen.rank,
        module=seen.module,
        stack=seen.stack,
        reference_stack=seen.reference_stack,
    )


def is_same_setting(one: Cause, other: Cause) -> bool:
    """Whether two differences are of one setting that the program holds in two places."""
    if one.stage != "configuration" or other.stage != "configuration":
        return False
    names = {cause.name.rpartition(" ")[2].rpartition(".")[2] for cause in (one, other)}
    return len(names) == 1 and one.values == other.values != ("", "")


def is_same_change(setting: tuple[str, str], seen: tuple[str, str]) -> bool:
    """Whether `seen` (target, reference) is the setting, or a multiple of it or of its reciprocal, as the
    factor alpha / r of an adapter is.
    """
    if not all((*setting, *seen)):
        return False
    if setting == seen:
        return True
    numbers = [_number(text) for text in (*setting, *seen)]
    a, b, x, y = numbers
    if a is None or b is None or x is None or y is None:
        return False
    if (a, b) == (x, y):
        return True
    if 0 in numbers or math.isclose(a, b, rel_tol=_EQUAL):
        return False
    return any(math.isclose(x / y, quotient, rel_tol=_EQUAL) for quotient in (a / b, b / a))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
