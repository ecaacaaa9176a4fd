# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Intended differences, which a user does not want to be told of: `msprobe diagnose --ignore PLACE`."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msprobe.diagnose.answer import PartResult
    from msprobe.diagnose.cause import Cause

# What an ignored difference does further on is one explanation of a later one, a second fault the other.
_EVEN = 0.5


def without_ignored(
    parts: Sequence[PartResult], places: Sequence[str]
) -> tuple[list[PartResult], list[Cause]]:
    """The parts without causes and settings at these places, and those that were taken out, the first step
    first. What comes at the same step or later is no surer than even.
    """
    if not places:
        return list(parts), []
    causes = [cause for part in parts for cause in (*part.causes, *part.settings)]
    named = [cause for cause in causes if _is_at(cause, places)]
    ignored = [cause for cause in causes if cause in named or any(_is_same(cause, one) for one in named)]
    first = min((cause.step or 0 for cause in ignored), default=None)
    shown = min((cause.step or 0 for cause in ignored if cause.part == "dump"), default=None)

    def kept(causes: tuple[Cause, ...]) -> Iterator[Cause]:
        for cause in causes:
            # What a dump shows is nearer to a cause than a gradient of the same step (see conclude()).
            follows = cause.part == "gradients" and shown is not None and (cause.step or 0) >= shown
            if cause in ignored or follows:
                continue
            is_later = first is not None and cause.step is not None and cause.step >= first
            yield replace(cause, confidence=min(cause.confidence, _EVEN)) if is_later else cause

    found = [
        replace(part, causes=tuple(kept(part.causes)), settings=tuple(kept(part.settings))) for part in parts
    ]
    return found, sorted(ignored, key=lambda cause: (cause.step or 0, cause.part != "dump"))


def explains(ignored: Sequence[Cause], parts: Sequence[PartResult]) -> bool:
    """Whether every difference of numbers begins no earlier than an ignored one that a dump shows."""
    shown = [cause.step or 0 for cause in ignored if cause.part == "dump"]
    firsts = [part.first_step for part in parts if part.first_step is not None]
    return bool(shown) and min(firsts, default=min(shown)) >= min(shown)


def _is_same(cause: Cause, other: Cause) -> bool:
    """A setting of a module, and the argument that it becomes of a call in there."""
    same = cause.values == other.values != ("", "") and cause.module == other.module
    return same and cause.step == other.step


def _is_at(cause: Cause, places: Sequence[str]) -> bool:
    return any(_matches(name, place) for name in _names(cause) for place in places)


def _matches(name: str, place: str) -> bool:
    """`layers.1` is also everything in it."""
    return fnmatchcase(name, place) or fnmatchcase(name, f"{place}.*")


def _names(cause: Cause) -> Iterator[str]:
    """As an answer shows the place: `layers.1.norm1.eps`, `Functional.linear.3.forward`, `settings: lr`."""
    yield cause.name
    yield cause.name.rpartition(" ")[2]
    for name in (cause.module, cause.record):
        if name:
            yield name
    if ": " in cause.name:
        yield cause.name.partition(": ")[2]
