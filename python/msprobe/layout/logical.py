# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The training state of all ranks of one step, read as that of one logical process: shards are put together,
copies are taken once, a batch that several ranks share is one batch (docs/layouts.md).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.engines import HANDING_ON, SHARDED_CLASS
from msprobe.layout.job import each, faults_of, items, section, sections
from msprobe.layout.names import renamed
from msprobe.layout.tensor_entry import (
    OTHER_FORMS,
    added,
    added_up,
    are_of_one_form,
    elements,
    identity,
    is_constant,
    is_tensor,
    shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from msprobe.layout.job import State
    from msprobe.layout.names import Prefixes
    from msprobe.layout.tensor_entry import Entry

    Entries = dict[int, Any]


@dataclass
class Logical:
    """One step of a logical run."""

    state: State
    pieces: dict[tuple[str, ...], Entries] = field(default_factory=dict)
    """What is no copy for sure, as it differs from rank to rank, is one number throughout or is on one rank
    only, and nothing says how it lies: keys of the state that lead to it.
    """
    summed: list[tuple[str, ...]] = field(default_factory=list)
    """What was added up of summands: see tensor_entry.of_sums()."""
    cut: set[str] = field(default_factory=set)
    """Plain parameters that are cut along a dimension, by something that says so."""
    not_joined: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Why, by the keys that would lead to it."""
    names: list[str] = field(default_factory=list)
    """Of the parameters of the rank that has most of them, in the order of the model."""
    is_partial: bool = False
    """Some ranks have no state of this step."""
    lacking: str = ""
    """Why what it has not is no difference."""

    def put_in_order(self, names: list[str]) -> None:
        """Weights as the model has them, gradients as the backward pass makes them: that of the last one
        first.
        """
        for state, name, order in (
            (self.state, "parameters", names),
            *((one, "after_reduction", names[::-1]) for one in items(self.state, "backward")),
        ):
            found = section(state, name)
            state[name] = {**{one: found[one] for one in order if one in found}, **found}


def logical_state(
    states: dict[int, State], names: dict[int, Prefixes] | None = None, *, is_partial: bool = False
) -> Logical:
    """states: by rank, at least one. names: by rank, what is called otherwise. is_partial: ranks lack."""
    names = names or {}
    called = states
    states = {rank: renamed(one, names[rank]) if rank in names else one for rank, one in states.items()}
    inputs = _inputs(called, sections(states, "parameters"))
    joiner = _Joiner(states, is_partial=is_partial)
    result = joiner.result
    first = states[min(states)]
    state = result.state
    for name in ("version", "kinds"):
        if name in first:
            state[name] = first[name]
    state["faults"] = [f"rank {rank}: {one}" for rank, of in states.items() for one in faults_of(of)]
    state["joined"] = True
    state["inputs"] = inputs
    state["parameters"] = joiner.tensors(("parameters",), sections(states, "parameters"))
    state["buffers"] = joiner.tensors(("buffers",), sections(states, "buffers"))
    state["modules"] = _modules(states)
    state["backward"] = joiner.backward()
    state["clipping"] = [
        joiner.clipping(place, found) for place, found in enumerate(each(states, "clipping"))
    ]
    state["gradients_at_optimizer"] = [
        {
            "optimizer": next(iter(found.values())).get("optimizer"),
            "gradients": joiner.tensors(
                ("gradients_at_optimizer", str(place), "gradients"),
                sections(found, "gradients"),
            ),
        }
        for place, found in _steps(states, "gradients_at_optimizer", of="optimizer")
    ]
    state["optimizer"] = [
        joiner.optimizer(place, found) for place, found in _steps(states, "optimizer", of="class")
    ]
    state["scaler"] = items(first, "scaler")
    return result


class _Joiner:
    def __init__(self, states: dict[int, State], *, is_partial: bool) -> None:
        names = max((list(section(state, "parameters")) for state in states.values()), key=len)
        self.result = Logical({}, names=names, is_partial=is_partial)
        self._states = states
        self._is_alone = len(states) == 1 and not is_partial

    def tensors(self, path: tuple[str, ...], by_rank: dict[int, State]) -> State:
        found = {}
        for name in dict.fromkeys(name for one in by_rank.values() for name in one):
            entries = {rank: one[name] for rank, one in by_rank.items() if name in one}
            joined = self._joined((*path, name), entries)
            if joined is not _NOTHING:
                found[name] = joined
        return found

    def backward(self) -> list[State]:
        """Gradients of all micro-batches, reduced over all ranks: what is clipped first, or what optimizers
        get. After backward() they may be neither scaled nor reduced; only what no optimizer has under its
        name, as where parameters are one flat tensor, is taken from there.
        """
        used = {rank: _used_gradients(state) for rank, state in self._states.items()}
        known = {name for found in used.values() for name in found}
        for rank, state in self._states.items():
            for one in items(state, "backward")[-1:]:
                after = section(one, "after_reduction").items()
                used[rank].update((name, entry) for name, entry in after if name not in known)
        if not any(used.values()):
            return []
        return [{"after_reduction": self.tensors(("backward", "0", "after_reduction"), used)}]

    def clipping(self, place: int, found: dict[int, State]) -> State:
        first = next(iter(found.values()))
        path = ("clipping", str(place))
        return {
            "function": first.get("function"),
            "arguments": first.get("arguments", {}),
            **{
                moment: self.tensors((*path, moment), sections(found, moment))
                for moment in ("before", "after", "result")
            },
        }

    def optimizer(self, place: int, found: dict[int, State]) -> State:
        first = next(iter(found.values()))
        path = ("optimizer", str(place))
        joined: State = {"class": first.get("class"), "groups": self._groups(found)}
        for moment in ("state_before", "state_after"):
            by_parameter: State = {}
            by_rank = sections(found, moment)
            for name in dict.fromkeys(name for one in by_rank.values() for name in one):
                states = {rank: one[name] for rank, one in by_rank.items() if isinstance(one.get(name), dict)}
                by_parameter[name] = self.tensors((*path, moment, name), states)
            joined[moment] = by_parameter
        updates = [update for one in found.values() if (update := section(one, "update"))]
        if updates:
            joined["update"] = max(updates, key=_off)
        return joined

    def _groups(self, found: dict[int, State]) -> list[State]:
        """An optimizer whose states are spread over ranks has some of the parameters on each. Of settings
        that ranks do not agree on the first counts: the replica check names them.
        """
        order = {name: place for place, name in enumerate(self.result.names)}
        groups: list[State] = []
        for place in range(max((len(items(one, "groups")) for one in found.values()), default=0)):
            here = [
                groups_of[place] for one in found.values() if place < len(groups_of := items(one, "groups"))
            ]
            names = dict.fromkeys(str(name) for one in here for name in one.get("parameters") or [])
            hyper = {name: value for one in reversed(here) for name, value in section(one, "hyper").items()}
            groups.append(
                {"parameters": sorted(names, key=lambda name: order.get(name, len(order))), "hyper": hyper}
            )
        return groups

    def _joined(self, path: tuple[str, ...], entries: Entries) -> Any:
        tensors = {rank: one for rank, one in entries.items() if is_tensor(one)}
        if not tensors or len(tensors) < sum(one is not None for one in entries.values()):
            return self._equal(path, entries)
        if any("dtensor" in one for one in tensors.values()):
            return self._placed(path, tensors)
        if any("part" in one for one in tensors.values()):
            return self._unknown(path, "a shard whose place in the whole was not recorded")
        if not are_of_one_form([*tensors.values()]):
            return self._unknown(path, OTHER_FORMS)
        found = {identity(one) for one in tensors.values()}
        first = next(iter(tensors.values()))
        has_copies = len(tensors) > 1 and len(found) == 1 and None not in found
        if self._is_alone or (has_copies and not is_constant(first)):
            return first
        self.result.pieces[path] = tensors
        return _NOTHING

    def _equal(self, path: tuple[str, ...], entries: Entries) -> Any:
        """Values, and gradients that are not there."""
        found = list(entries.values())
        present = [one for one in found if one is not None]
        if present and all(one == present[0] for one in present):
            return present[0]
        return None if not present else self._unknown(path, "a value that is not the same on all ranks")

    def _placed(self, path: tuple[str, ...], tensors: Entries) -> Any:
        """Shards side by side; summands that lie at the same place added up; copies once."""
        pieces: dict[Hashable, dict[Hashable, Entry]] = {}
        known: list[str] = []
        is_summed = False
        for one in tensors.values():
            place = one.get("dtensor")
            if not isinstance(place, dict) or not isinstance(place.get("placements"), list):
                return self._unknown(path, "it is a DTensor on some ranks only")
            placements = [str(placement) for placement in place["placements"]]
            coordinate = place.get("coordinate") or []
            if len(coordinate) != len(placements):
                continue  # no member of the mesh
            unknown = [one for one in placements if not _PLACEMENTS.fullmatch(one)]
            if unknown:
                return self._unknown(path, f"a placement that is not known, {unknown[0][:60]}")
            known = known or placements
            if placements != known:
                return self._unknown(
                    path, f"its ranks contradict each other: {_words(known)} and {_words(placements)}"
                )
            is_summand = [placement.startswith("Partial") for placement in placements]
            if any(placement.startswith("Partial") and placement != _SUM for placement in placements):
                return self._unknown(path, "summands that are not added up")
            is_summed |= any(is_summand)
            cut = tuple(at for at, kind in zip(coordinate, placements) if kind not in ("Replicate", _SUM))
            summand = tuple(at for at, is_one in zip(coordinate, is_summand) if is_one)
            pieces.setdefault(cut, {}).setdefault(summand, one)
        first = next((one for parts in pieces.values() for one in parts.values()), None)
        if first is None:
            return _NOTHING
        shape = shape_of(first["dtensor"]) or []
        shards = [added_up([_local(one) for one in parts.values()]) for parts in pieces.values()]
        if is_summed:
            self.result.summed.append(path)
        if path[0] == "parameters" and len(pieces) > 1 and first["dtensor"].get("described"):
            self.result.cut.add(path[-1])
        if len(shards) == 1 and shards[0] is not None and shape_of(shards[0]) == shape:
            return {key: value for key, value in shards[0].items() if key not in ("dtensor", "part")}
        parts = [one for one in shards if one is not None]
        whole = added(parts, shape) if len(parts) == len(shards) else None
        return self._unknown(path, MISSING_SHARDS) if whole is None else whole

    def _unknown(self, path: tuple[str, ...], reason: str) -> Any:
        self.result.not_joined[path] = reason
        return _NOTHING


MISSING_SHARDS = "not all of its shards were recorded"
_NOTHING: Any = object()
_SUM = "Partial(sum)"
# Of torch; StridedShard is a shard of tensor parallelism that fully_shard() has cut once more.
_PLACEMENTS = re.compile(r"Replicate|Partial(\(\w+\))?|Shard\(-?\d+\)|StridedShard\(-?\d+, \d+\)")


def _words(placements: list[str]) -> str:
    return ", ".join(placements)[:80]


def _local(entry: Entry) -> Entry:
    """With the shape of what its numbers are of."""
    return {**entry, "shape": entry["dtensor"].get("local_shape", entry.get("shape"))}


def _off(update: State) -> float:
    off = update.get("off")
    return float(off) if isinstance(off, (int, float)) and not math.isnan(off) else 0.0


def _used_gradients(state: State) -> State:
    found: State = {}
    for one in filter(_does_the_work("optimizer"), items(state, "gradients_at_optimizer")):
        found.update(section(one, "gradients"))
    for one in items(state, "clipping")[:1]:
        found.update(section(one, "before"))
    return found


def _does_the_work(of: str) -> Callable[[State], bool]:
    """Of a step of an optimizer. of: the key of the class."""
    return lambda one: str(one.get(of)).rpartition(".")[2] not in HANDING_ON


def _steps(states: dict[int, State], name: str, of: str) -> Iterator[tuple[int, dict[int, State]]]:
    """The steps of optimizers that do the work themselves, by place and rank."""
    return enumerate(each(states, name, _does_the_work(of)))


# ---- modules


def _modules(states: dict[int, State]) -> State:
    found: State = {}
    for state in states.values():
        for path, module in section(state, "modules").items():
            if path not in found and isinstance(module, dict):
                found[path] = {**module, "class": _plain_class(str(module.get("class", "")))}
    return found


def _plain_class(name: str) -> str:
    """fully_shard() makes a class FSDPBlock of a Block, in a module of its own: so classes are held against
    each other by their last names.
    """
    last = name.rpartition(".")[2]
    return last.removeprefix(SHARDED_CLASS) or last if ".fsdp." in name else last


# ---- what goes in


def _inputs(states: dict[int, State], parameters: dict[int, State]) -> list[State]:
    """One call with the tensors of all ranks and micro-batches: sums that do not depend on their order. Ranks
    that share a batch, as those of tensor parallelism, see the same tensors, which are taken once. What a
    later stage of a pipeline is given was computed by the one before it: its rank has not the parameter that
    the model begins with, or shares it, and is given tensors of another form.
    """
    parts: dict[str, dict[Hashable, Entry]] = {}
    values: dict[str, list[Any]] = {}
    begins = next(iter(parameters[min(states)]), None)
    for rank, state in states.items():
        if begins is not None and begins not in parameters[rank]:
            continue
        for number, call in enumerate(items(state, "inputs")):
            for name, entry in section(call, "tensors").items():
                if is_tensor(entry) and shape_of(entry):
                    key = identity(entry)
                    of_batch = parts.setdefault(name, {})
                    if _form(next(iter(of_batch.values()), entry)) == _form(entry):
                        of_batch[(rank, number) if key is None else key] = entry
                else:
                    values.setdefault(name, []).append(entry)
    tensors = {}
    for name, found in parts.items():
        whole = _batch(list(found.values()))
        if whole is not None:
            tensors[name] = whole
    for name, entries in values.items():
        if name not in tensors and all(one == entries[0] for one in entries):
            tensors[name] = entries[0]
    return [{"model": "", "tensors": tensors}]


def _form(tensor: Entry) -> tuple[str, int]:
    """What the parts of a batch have in common: the dtype, and the number of dimensions."""
    return tensor["dtype"], len(shape_of(tensor) or [])


def _batch(parts: list[Entry]) -> Entry | None:
    """Along the first dimension."""
    shapes = [shape_of(part) or [] for part in parts]
    count = sum(map(elements, parts))
    alike = all(shape[1:] == shapes[0][1:] for shape in shapes)
    shape = [sum(one[0] for one in shapes), *shapes[0][1:]] if alike else [count]
    whole = added(parts, [count])
    return None if whole is None else {**whole, "shape": shape}
