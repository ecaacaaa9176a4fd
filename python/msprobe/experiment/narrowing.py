# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What of several changes is needed, told by runs without each."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def needed_of(found: Sequence[T], suffice: Callable[[Sequence[T]], object], *, least: int = 1) -> list[T]:
    """Those of `found`, which suffice together, without each that they suffice without. least: as few are
    tried; 2 where each was tried alone before.
    """
    needed = list(found)
    for one in found:
        rest = [other for other in needed if other is not one]
        if len(rest) >= least and suffice(rest):
            needed = rest
    return needed


def least_of(found: Sequence[T], suffice: Callable[[Sequence[T]], object]) -> list[T]:
    """The same for many, in few runs (ddmin, Zeller and Hildebrandt 2002): halves, then smaller parts, then
    what is left without one part. None of the result can be left out.
    """
    found, parts = list(found), 2
    while len(found) > 1:
        size = -(-len(found) // parts)
        pieces = [found[place : place + size] for place in range(0, len(found), size)]
        smaller = next((piece for piece in pieces if suffice(piece)), None)
        if smaller is not None:
            found, parts = smaller, 2
            continue
        rests = [[one for one in found if one not in piece] for piece in pieces] if len(pieces) > 2 else []
        rest = next((some for some in rests if suffice(some)), None)
        if rest is not None:
            found, parts = rest, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(found))
    return found
