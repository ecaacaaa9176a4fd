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
