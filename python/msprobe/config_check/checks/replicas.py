# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks of one run that began with the same weights and must keep them: replicas of data parallelism, which
an all-reduce leaves equal to the bit.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from msprobe.files.ranges import numbers

if TYPE_CHECKING:
    from msprobe.config_check.packs.pack_reader import Pack

_KIND = "weights fingerprints"  # checksums of all weights of a rank before a step
_LEAST_RANKS = 3  # of two nobody can say which one is off


def parted_replicas(pack: Pack, name: str) -> str | None:
    """The first step at which replicas of a run are no longer equal, in a sentence; None: there is none.

    name: what the run is called. Weights that are sharded differ from the beginning, and are no replicas.
    """
    steps: dict[int, dict[int, str]] = {}
    for (step, rank), entry in pack.files(_KIND).items():
        steps.setdefault(step, {})[rank] = entry
    groups: dict[bytes, list[int]] = {}
    for number, step in enumerate(sorted(steps)):
        texts = {rank: _digest(pack.bytes(entry)) for rank, entry in steps[step].items()}
        if number == 0:
            for rank, text in texts.items():
                if text is not None:
                    groups.setdefault(text, []).append(rank)
            continue
        for group in groups.values():
            found = Counter(text for rank in group if (text := texts.get(rank)) is not None)
            if len(found) > 1:
                usual = found.most_common(1)[0][0]
                off = [rank for rank in group if texts.get(rank) not in (None, usual)]
                which = numbers("rank", off if len(group) >= _LEAST_RANKS else group)
                return (
                    f"{name}: {numbers('rank', group)} began with the same weights; from step {step} on "
                    f"those of {which} are others"
                )
    return None


def _digest(text: bytes | None) -> bytes | None:
    return None if text is None else hashlib.sha256(text).digest()
