# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Random numbers of the ranks of one step: who computes the same has to draw the same, as ranks of tensor
parallelism do between their cut layers; who has data of its own should not.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msprobe.files.ranges import numbers
from msprobe.layout.job import items, section
from msprobe.layout.tensor_entry import identity

if TYPE_CHECKING:
    from collections.abc import Hashable

    from msprobe.layout.job import State


def notes_of(states: dict[int, State]) -> list[str]:
    """Of trainings with active dropout, by the states of torch's generators and what the model is given. What
    is no mistake for sure is no mismatch: a seed for each rank is a matter of choice.
    """
    by_data: dict[Hashable, dict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, state in states.items():
        data, drawn = _data(state), _drawn(state)
        if data and drawn and _drops(state):
            by_data[data][drawn].append(rank)
    notes = []
    by_draws: dict[Hashable, list[int]] = defaultdict(list)
    for same_data in by_data.values():
        if len(same_data) > 1:
            ranks = numbers("rank", sorted(rank for found in same_data.values() for rank in found))
            notes.append(f"{ranks} have the same data and draw other random numbers: their dropout differs")
        for drawn, found in same_data.items():
            by_draws[drawn].append(min(found))
    notes += [
        f"{numbers('rank', sorted(found))} have data of their own and draw the same random numbers: their "
        "dropout is alike"
        for found in by_draws.values()
        if len(found) > 1
    ]
    return notes


def _data(state: State) -> Hashable:
    """What the model is given; empty: it cannot be told."""
    found = [
        identity(entry) for call in items(state, "inputs") for entry in section(call, "tensors").values()
    ]
    return () if None in found else tuple(found)


def _drawn(state: State) -> Hashable:
    at_step = section(section(state, "rng"), "step")
    return tuple(sorted((name, str(one)) for name, one in at_step.items() if name.startswith("torch.")))


def _drops(state: State) -> bool:
    return any(
        "Dropout" in str(module.get("class"))
        and module.get("training")
        and section(module, "settings").get("p")
        for module in section(state, "modules").values()
        if isinstance(module, dict)
    )
