# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Many numbers in few words."""

from __future__ import annotations

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Collection

_MOST_RANGES = 5


def numbers(noun: str, found: Collection[int]) -> str:
    """ "step 4", "steps 4-6, 9"."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(found):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    text = ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in ranges[:_MOST_RANGES]
    )
    more = ", ..." if len(ranges) > _MOST_RANGES else ""
    return f"{noun}{'' if len(found) == 1 else 's'} {text}{more}"


def which_ranks(found: Collection[int], total: int) -> str:
    """Of several ranks those that something is true of: "rank 3", "ranks 8-15", "all 256 ranks"."""
    if len(found) == total > 1:
        return "both ranks" if total == 2 else f"all {total} ranks"
    return numbers("rank", found)
