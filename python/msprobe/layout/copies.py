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
    found = {module: _alike(names, states) for module, names in modules.items()}
    related = _related(states, [ranks for telling, _ in found.values() for ranks in telling])
    return {
        module: _groups([*telling, *(part for ranks in constant for part in _split(ranks, related))])
        for module, (telling, constant) in found.items()
    }


def _alike(names: list[str], states: dict[int, State]) -> tuple[list[list[int]], list[list[int]]]:
    """Ranks on which all weights of a module are the same: where one of them differs, those that are equal,
    as the zeros of a bias, may be shards, too. Apart: those of ones and zeros alone, as a norm begins with.
    """
    telling: dict[Hashable, list[int]] = {}
    constant: dict[Hashable, list[int]] = {}
    for rank, state in states.items():
        entries = section(state, "parameters")
        if not all(name in entries and is_tensor(entries[name]) for name in names):
            continue  # of another stage of a pipeline
        found = [identity(entries[name]) for name in names]
        if not any(one is None for one in found):
            is_constant_here = all(is_constant(entries[name]) for name in names)
            (constant if is_constant_here else telling).setdefault(tuple(found), []).append(rank)
    return [*telling.values()], [*constant.values()]


def _related(states: dict[int, State], equal: list[list[int]]) -> dict[int, Hashable]:
    """Ones and zeros alone are copies only on ranks that have the same parameters beside them, and one of
    these with the same values, or are given the same: stages of a pipeline may number their layers anew, and
    FSDP1 cuts where it comes to. Equal for such ranks.
    """
    given: dict[Hashable, list[int]] = {}
    for rank, state in states.items():
        given.setdefault(_given(state), []).append(rank)
    relation = {rank: rank for rank in states}
    for ranks in (*equal, *given.values()):
        joined = {relation[rank] for rank in ranks}
        relation = {rank: min(joined) if one in joined else one for rank, one in relation.items()}
    parameters = {rank: section(state, "parameters") for rank, state in states.items()}
    return {
        rank: (one, frozenset(name for name in parameters[rank] if elements(parameters[rank][name])))
        for rank, one in relation.items()
    }


def _given(state: State) -> Hashable:
    """What the model was called with first."""
    first = [section(call, "tensors") for call in items(state, "inputs")[:1]]
    return tuple((name, identity(entry)) for tensors in first for name, entry in tensors.items())


def _split(ranks: list[int], related: dict[int, Hashable]) -> list[list[int]]:
    found: dict[Hashable, list[int]] = {}
    for rank in ranks:
        found.setdefault(related[rank], []).append(rank)
    return [*found.values()]


def _groups(alike: list[list[int]]) -> list[Group]:
    return [
        Group(
            tuple(sorted(ranks)),
            False,
            f"the module began with the same weights on {numbers('rank', ranks)}, and nothing "
            "says that it is cut",
            f"a reduction over {numbers('rank', ranks)}",
        )
        for ranks in alike
        if len(ranks) > 1
    ]
