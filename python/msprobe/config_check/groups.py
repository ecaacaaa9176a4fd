# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the process groups of a run say of its ranks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msprobe.config_check.packs import pack

if TYPE_CHECKING:
    from msprobe.config_check.packs.pack_reader import Pack


def neighbours(found: Pack) -> int:
    """How many ranks that follow each other are in one group, as those of tensor parallelism are: the
    smallest such group of rank 0 that has not all ranks. 1: there is none, or it is not known.
    """
    settings = found.json(pack.settings(0)) if found.has(pack.settings(0)) else None
    processes = settings.get("processes") if settings else None
    if not isinstance(processes, dict):
        return 1
    groups = re.findall(r"\(([0-9,]{1,100000})\)", str(processes.get("groups", "")))
    ranks = [[int(rank) for rank in group.split(",") if rank] for group in groups]
    rows = [len(one) for one in ranks if one == list(range(len(one))) and len(one) > 1]
    return min((size for size in rows if size < max(rows)), default=1)
