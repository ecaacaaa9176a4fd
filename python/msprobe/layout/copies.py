# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which ranks of a job hold copies of one value: as the job's layout says, else as its first weights show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.files.ranges import numbers
from msprobe.layout.job import items, section
from msprobe.layout.tensor_entry import elements, identity, is_constant, is_tensor

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from msprobe.layout.job import State


@dataclass(frozen=True)
class Group:
    """Ranks that hold copies of a value."""

    ranks: tuple[int, ...]
    declared: bool
    """By the layout; False: only by what the values are at the start."""
    why: str
    reduction: str
    """What makes gradients equal."""
    at_start: str = ""
    """What makes weights equal at the start."""


class Copies:
    """Of one run. Asked in this order: the placements of a DTensor; wrappers that keep copies equal, as
    DistributedDataParallel; the first weights: a module whose weights are all the same on some ranks is a
    copy there, one of which any weight differs is cut, and nothing is said of it.
    """

    def __init__(self, states: dict[int, State]) -> None:
        """states: of the first step that was recorded."""
        self._wrapped = dict(_wrapped(states))
        self._by_module = _equal_modules(states)
        self._names = {name for state in states.values() for name in section(state, "parameters")}

    def groups(self, parameter: str, entries: dict[int, Any]) -> list[Group]:
        """Of the value of `parameter`, or one that belongs to it, with the ranks in `entries`; empty: nothing
        says that it has copies.
        """
        placed = {rank: entry["dtensor"] for rank, entry in entries.items() if _is_placed(entry)}
        if placed:
            found = list(_of_placements(placed))
            # What is written on a plain tensor tells of one axis: along others a wrapper may copy it.
            if found or not any(place.get("described") for place in placed.values()):
                return found
        if parameter not in self._names:
            return []
        wrapped = [group for group, without in self._of_wrapper(parameter) if parameter not in without]
        known = wrapped or self._by_module.get(parameter.rpartition(".")[0], [])
        here = (_only(group, entries) for group in known)
        return [group for group in here if len(group.ranks) > 1]

    def _of_wrapper(self, parameter: str) -> list[tuple[Group, frozenset[str]]]:
        return next((groups for model, groups in self._wrapped.items() if parameter.startswith(model)), [])


def _only(group: Group, ranks: Iterable[int]) -> Group:
    kept = tuple(rank for rank in group.ranks if rank in ranks)
    return Group(kept, group.declared, group.why, group.reduction, group.at_start)


def _is_placed(entry: object) -> bool:
    placed = entry.get("dtensor") if isinstance(entry, dict) else None
    return isinstance(placed, dict) and isinstance(placed.get("coordinate"), list)


# ---- placements


def _of_placements(placed: dict[int, Any]) -> Iterator[Group]:
    """Ranks of one mesh that are at one place along all dimensions but those of copies."""
    found: dict[tuple[object, ...], list[int]] = {}
    dims: dict[tuple[object, ...], list[str]] = {}
    for rank, place in placed.items():
        placements = [str(one) for one in place.get("placements", [])]
        coordinate = place["coordinate"]
        if len(coordinate) != len(placements) or any(one.startswith("Partial") for one in placements):
            continue  # not a member; summands are not equal
        copied = [dim for dim, one in enumerate(placements) if one == "Replicate"]
        names = place.get("mesh_dims") or []
        key = (place.get("mesh"), *(at for dim, at in enumerate(coordinate) if dim not in copied))
        found.setdefault(key, []).append(rank)
        dims[key] = [str(names[dim]) if dim < len(names) else str(dim) for dim in copied]
    for key, ranks in found.items():
        if len(ranks) > 1 and dims[key]:
            along = "dimension " + ", ".join(dims[key]) + " of its mesh"
            yield Group(
                tuple(sorted(ranks)),
                True,
                f"{_what(placed[ranks[0]])} along {along}",
                f"the reduction along {along}",
                f"the distribution along {along}",
            )


def _what(place: dict[str, Any]) -> str:
    return "it is described as a copy" if place.get("described") else "it is a DTensor with Replicate"


# ---- wrappers


def _wrapped(states: dict[int, State]) -> Iterator[tuple[str, list[tuple[Group, frozenset[str]]]]]:
    found: dict[str, dict[tuple[int, ...], tuple[Group, frozenset[str]]]] = {}
    for state in states.values():
        for one in items(section(state, "layout"), "copies"):
            ranks = one.get("ranks")
            if not isinstance(ranks, list) or not all(isinstance(rank, int) for rank in ranks):
                continue
            wrapper = str(one.get("wrapper"))
            group = Group(
                tuple(ranks),
                True,
                f"{wrapper} keeps it equal on {numbers('rank', ranks)}",
                f"the all-reduce of {wrapper} over {numbers('rank', ranks)}",
                f"the broadcast that {wrapper} begins with",
            )
            without = one.get("without")
            names = frozenset(map(str, without)) if isinstance(without, list) else frozenset()
            found.setdefault(str(one.get("model", "")), {})[group.ranks] = group, names
    # The longest beginning of a name first.
    for model in sorted(found, key=len, reverse=True):
        yield model, list(found[model].values())


# ---- by values


def _equal_modules(states: dict[int, State]) -> dict[str, list[Group]]:
    modules: dict[str, list[str]] = {}
    for state in states.values():
        for name in section(state, "parameters"):
            names = modules.setdefault(name.rpartition(".")[0], [])
            if name not in names:
                names.append(name)
    return {module: _groups_of(names, states) for module, names in modules.items()}


def _groups_of(names: list[str], states: dict[int, State]) -> list[Group]:
    """Ranks on which all weights of a module are the same: where one of them differs, those that are equal,
    as the zeros of a bias, may be shards, too. Ones and zeros alone, as a norm begins with, are no copies on
    ranks that have other parameters beside them: stages of a pipeline may number their layers anew,
    and FSDP1 cuts where it comes to.
    """
    whole: dict[Hashable, list[int]] = {}
    for rank, state in states.items():
        entries = section(state, "parameters")
        if not all(name in entries and is_tensor(entries[name]) for name in names):
            continue  # of another stage of a pipeline
        found = [identity(entries[name]) for name in names]
        if not any(one is None for one in found):
            is_telling = not all(is_constant(entries[name]) for name in names)
            stage = None if is_telling else frozenset(name for name in entries if elements(entries[name]))
            whole.setdefault((stage, *found), []).append(rank)
    return [
        Group(
            tuple(sorted(ranks)),
            False,
            f"the module began with the same weights on {numbers('rank', ranks)}, and nothing "
            "says that it is cut",
            f"a reduction over {numbers('rank', ranks)}",
        )
        for ranks in whole.values()
        if len(ranks) > 1
    ]
