# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which names come close to one that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def close_to(target: str, names: Sequence[str]) -> str:
    """What a warning says of the names that come close to one which is not there."""
    import difflib

    close = difflib.get_close_matches(target, names, n=3, cutoff=0.5)
    return f"; close to it: {', '.join(close)}" if close else ""
