# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Along which axes the ranks of a job lie: tensor, data, pipeline parallelism, as far as the run says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msprobe.layout.described import read_description
from msprobe.layout.job import items, open_job, section, world_size
from msprobe.native import Error

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.layout.job import State

Axis = tuple[str, int]
"""Its name, empty where nobody says it, and how many ranks lie along it."""


def axes_of(path: Path) -> list[Axis]:
    """Of a run or its dump, the innermost axis first: ranks that follow each other lie along it. Empty: it is
    not known.
    """
    try:
        job = open_job(path)
        described = read_description(job.folder)
    except Error:  # who needs what is in there says so
        return []
    state = job.first_state() or {}
    world = world_size(state) or len(job.ranks)
    if described is not None and math.prod(described.axes.values()) == world:
        return [(str(name), size) for name, size in reversed([*described.axes.items()])]
    return _axes_of_groups(_named_groups(state), world)


def _axes_of_groups(groups: dict[tuple[int, ...], str], world: int) -> list[Axis]:
    """From the innermost outwards: of the groups whose ranks are so far apart the smallest, as larger ones
    span several axes.
    """
    result: list[Axis] = []
    apart = 1
    while apart < world:
        fitting = {
            len(ranks): name
            for ranks, name in groups.items()
            if len(ranks) > 1 and ranks == tuple(range(ranks[0], ranks[0] + apart * len(ranks), apart))
        }
        size = min(fitting, default=0)
        if not size or world % (apart * size):
            return [*result, ("", world // apart)] if result else []
        result.append((fitting[size], size))
        apart *= size
    return result


def _named_groups(state: State) -> dict[tuple[int, ...], str]:
    """The process groups of a rank, by their ranks in order, with what the program calls them."""
    layout = section(state, "layout")
    groups, names = layout.get("groups"), layout.get("group_names")
    if not isinstance(groups, list):
        return {}
    names = names if isinstance(names, list) and len(names) == len(groups) else [""] * len(groups)
    result = {}
    for group, name in zip(groups, names):
        if isinstance(group, list) and all(type(rank) is int for rank in group):
            result[tuple(sorted(group))] = _plain(name) if isinstance(name, str) else ""
    for copies in items(layout, "copies"):
        ranks = copies.get("ranks")
        key = tuple(sorted(ranks)) if isinstance(ranks, list) and all(type(r) is int for r in ranks) else ()
        if not result.get(key, "?"):
            result[key] = "data parallel"
    return result


def _plain(name: str) -> str:
    """ "mesh_tp" of torch is tp, "TENSOR_MODEL_PARALLEL_GROUP" of Megatron-core tensor model parallel."""
    return name[:100].lower().removeprefix("mesh_").removesuffix("_group").replace("_", " ")
