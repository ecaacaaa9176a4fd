# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two runs of different layouts, each written as one logical process, so that whatever compares dumps
compares them.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.left_out import LeftOut, left_out
from msprobe.layout.activations import TENSORS, calls_of, hierarchy, joined_calls
from msprobe.layout.described import place_shards, read_description
from msprobe.layout.job import DUMP, FILE, items, open_job, section, world_size
from msprobe.layout.logical import MISSING_SHARDS, logical_state
from msprobe.layout.names import other_names
from msprobe.layout.tensor_entry import added, elements, identity, is_tensor, of_sums, shape_of
from msprobe.native import NothingToCompare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from msprobe.layout.job import Job, State
    from msprobe.layout.logical import Logical
    from msprobe.layout.names import Prefixes
    from msprobe.layout.tensor_entry import Entry

FOLDER = "joined"
"""Of the logical runs, in the folder of a comparison."""

_DUMP: dict[str, object] = {
    "task": "statistics",
    "level": "mix",
    "framework": "pytorch",
    "dump_data_dir": None,
}

# Statistics of shards are sums in double of what a kernel added in float32 (msprobe/stats.h).
_SAME = 1e-6

_UNKNOWN = "it differs from rank to rank, and nothing says how it lies"
_NOT_ALL = "not all of the batch was recorded"
_OF_PARAMETERS = {
    "parameters",
    "buffers",
    "modules",
    "backward",
    "clipping",
    "gradients_at_optimizer",
    "optimizer",
}
_LISTS = {"backward", "clipping", "gradients_at_optimizer", "optimizer"}
_CHANGED_BUFFER = "each rank changes this buffer for itself"

NOT_JOINED = (
    (
        "calls of functions",
        "each rank computes with its part of the batch or of the weights",
    ),
    ("random states", "each rank draws for itself"),
)


@dataclass
class Joined:
    """Where the logical runs are."""

    reference: Path
    target: Path
    steps: list[int] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    layouts: tuple[str, str] = ("", "")
    """In words, of the reference and the target."""
    has_calls: bool = False
    """What modules get and give was put together, of one module at least."""


def differ_in_layout(reference: Job, target: Job) -> bool:
    """Whether ranks of the same number hold other parts of a run."""
    ours, theirs = reference.first_state(), target.first_state()
    if ours is None or theirs is None:
        return False
    if _signature(ours, reference) != _signature(theirs, target):
        return True
    return _parts(ours) != _parts(theirs) and _batch(ours) == _batch(theirs)


def joined(reference: Path, target: Path, output: Path, offset: int) -> Joined | None:
    """Two dumps as logical runs, below `output`. None: their layouts are the same, or nothing says what they
    are, or they have no step in common. offset: as that of compare. Raises InvalidArgument, IoError, and
    NothingToCompare where files of common steps cannot be read: rank by rank, all of two layouts differs.
    """
    jobs = open_job(reference), open_job(target)
    if not differ_in_layout(*jobs):
        return None
    try:
        return write_joined(*jobs, output / FOLDER, offset)
    except NothingToCompare:
        for job in jobs:
            if job.left_out:
                first = job.left_out[0]
                raise NothingToCompare(f"{job.folder}: {first.what}: {first.reason}") from None
        return None


@contextmanager
def _without_collector() -> Iterator[None]:
    """Records that are read have no cycles; a collector that looks for some walks all of them again and
    again, a quarter of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_without_collector()
def write_joined(reference: Job, target: Job, output: Path, offset: int = 0) -> Joined:
    """Writes below `output` what both runs have of each step. offset: as that of compare. Raises
    NothingToCompare and IoError.
    """
    result = Joined(output / "reference", output / "target")
    descriptions = [read_description(job.folder) for job in (reference, target)]
    learned = (_Learned(), _Learned())
    names: tuple[dict[int, Prefixes], dict[int, Prefixes]] = ({}, {})
    modules: dict[str, None] = {}
    reasons: Counter[tuple[str, str]] = Counter()
    samples: dict[tuple[str, str], str] = {}
    for step in sorted(target.steps):
        states, others = target.states_of(step), reference.states_of(step + offset)
        if not states or not others:
            continue
        place_shards(others, descriptions[0])
        place_shards(states, descriptions[1])
        if not result.steps:
            result.layouts = (layout_words(others), layout_words(states))
            names = other_names(others, states), other_names(states, others)
        sides = (
            logical_state(others, names[0], is_partial=bool(reference.missing(others))),
            logical_state(states, names[1], is_partial=bool(target.missing(states))),
        )
        sides[0].lacking = reference.why_lacking(others, step + offset)
        sides[1].lacking = target.why_lacking(states, step)
        _know_the_same(learned, sides)
        for side, one, other in zip(("reference", "target"), sides, sides[::-1]):
            for path, reason in one.not_joined.items():
                reasons[side, reason] += 1
                name = " ".join(path[3:] if path[0] in _LISTS else path[-1:])
                samples.setdefault((side, reason), name or path[0])
                _remove(other.state, path)
        result.steps.append(step + offset)
        folders = (
            result.reference / f"step{step + offset}" / "rank0",
            result.target / f"step{step}" / "rank0",
        )
        calls = joined_calls(
            (
                calls_of(reference, step + offset, names[0]),
                calls_of(target, step, names[1]),
            ),
            (sides[0].state["parameters"], sides[1].state["parameters"]),
            (folders[0] / TENSORS, folders[1] / TENSORS),
        )
        modules.update(dict.fromkeys(calls.left_out))
        result.has_calls |= bool(calls.data[0])
        for folder, one, data in zip(folders, sides, calls.data):
            _write(folder, one.state, data, has_files=calls.has_files)
    if not result.steps:
        raise NothingToCompare("no step has the training state (diagnosis.json) of both runs")
    result.left_out = [
        left_out(
            f"not joined: {reason}",
            name=f"{count} values of the {side}, as {samples[side, reason]}",
        )
        for (side, reason), count in reasons.items()
    ]
    result.left_out += [
        replace(one, reason=f"{one.reason} in the {side}")
        for side, job in (("reference", reference), ("target", target))
        for one in job.left_out
    ]
    not_joined = dict(NOT_JOINED)
    if modules:
        name = f"calls of {len(modules)} modules, as {next(iter(modules))}"
        not_joined[name] = "what the ranks have of them is not the same tensor in both runs"
    result.left_out += [
        left_out(f"not joined: {reason}", name=what, is_difference=False)
        for what, reason in not_joined.items()
    ]
    return result


def _know_the_same(learned: tuple[_Learned, _Learned], sides: tuple[Logical, Logical]) -> None:
    """What one side tells of how the other one lies, and what both can be compared by."""
    for known, (mine, other) in zip(learned, (sides, sides[::-1])):
        known.put_together(mine, other.state)
        if mine.lacking:
            _leave_out_lacking(mine, other.state)
    cut = {name for known, one in zip(learned, sides) for name in (*known.cut, *one.cut)}
    for path in {name.rpartition(".")[0] for name in cut}:
        for one in sides:
            # A layer of plain shards has a class and settings of its own: which words of a vocabulary it has.
            one.state["modules"].pop(path, None)
    for one in sides:
        one.put_in_order(max((side.names for side in sides), key=len))
    _reduce_to_sums(*sides)
    _shape_alike(*(one.state["inputs"][0]["tensors"] for one in sides))


def _reduce_to_sums(*sides: Logical) -> None:
    """Of what one side knows as a sum of summands, less is known."""
    for path in {path for one in sides for path in one.summed}:
        for one in sides:
            entry = _at(one.state, path)
            if is_tensor(entry):
                _set(one.state, path, of_sums(entry))


def _shape_alike(ours: dict[str, Entry], theirs: dict[str, Entry]) -> None:
    """Parts of a batch are added up, in whatever order and along whatever dimension they were cut: rows over
    ranks, the sequence over those of context parallelism. How many elements there are has to be the same.
    """
    for name, one in ours.items():
        other = theirs.get(name)
        if other is not None and all(map(is_tensor, (one, other))) and elements(one) == elements(other):
            one["shape"] = other["shape"]


def _write(folder: Path, state: State, calls: State, *, has_files: bool) -> None:
    make_directory(folder)
    write_text(folder / FILE, json.dumps(state))
    task = {"task": "tensor", "dump_data_dir": str(folder / TENSORS)} if has_files else {}
    write_text(folder / DUMP, json.dumps(_DUMP | task | {"data": calls}))
    write_text(folder / "construct.json", json.dumps(hierarchy(calls)))
    write_text(folder / "stack.json", "{}")


# ---- layouts


def _signature(state: State, job: Job) -> Any:
    lies = {
        name: entry["dtensor"].get("placements")
        for name, entry in section(state, "parameters").items()
        if isinstance(entry, dict) and isinstance(entry.get("dtensor"), dict)
    }
    copies = [(one.get("model"), one.get("ranks")) for one in items(section(state, "layout"), "copies")]
    cut = items(section(state, "layout"), "cut")
    return (world_size(state) or len(job.ranks), copies, lies, cut, read_description(job.folder))


def _parts(state: State) -> int:
    """Micro-batches of the step."""
    return len(items(state, "backward"))


def _batch(state: State) -> dict[str, int]:
    """How many elements all micro-batches have."""
    found: Counter[str] = Counter()
    for call in items(state, "inputs"):
        for name, entry in section(call, "tensors").items():
            found[name] += elements(entry) if is_tensor(entry) else 0
    return dict(found)


def layout_words(states: dict[int, State]) -> str:
    """ "2 processes, DistributedDataParallel", "4 processes, Shard(0) along dp"."""
    state = states[min(states)]
    count = world_size(state) or len(states)
    if count == 1:
        return "one process"
    wrappers = dict.fromkeys(str(one.get("wrapper")) for one in items(section(state, "layout"), "copies"))
    places: dict[str, None] = {}
    for entry in section(state, "parameters").values():
        place = entry.get("dtensor") if isinstance(entry, dict) else None
        if isinstance(place, dict):
            names = place.get("mesh_dims") or []
            for dim, placement in enumerate(place.get("placements") or []):
                places[f"{placement} along {names[dim] if dim < len(names) else dim}"] = None
    return ", ".join([f"{count} processes", *wrappers, *places])


# ---- by values


class _Learned:
    """How parameters of one run lie over its ranks, where nothing but the other run tells: copies, or shards
    whose sums are those of its whole.
    """

    def __init__(self) -> None:
        self._lies: dict[str, _Lies] = {}

    @property
    def cut(self) -> list[str]:
        """Along dimensions."""
        return [name for name, lies in self._lies.items() if lies.dims]

    def put_together(self, run: Logical, other: State) -> None:
        """Into the state of the run, what is known how; the others become reasons."""
        for name in run.state["parameters"] if not self._lies else ():
            self._lies[name] = _COPIES
        for path, entries in run.pieces.items():
            parameter = path[3] if path[0] == "optimizer" else path[-1]
            if path[0] == "parameters" and parameter not in self._lies:
                self._learn(parameter, entries, _at(other, path))
            lies = self._lies.get(parameter)
            # A rank may have failed to record it, or have no gradient.
            is_partial = run.is_partial or (lies is not None and not set(lies.ranks) <= set(entries))
            whole = _whole_of(entries, lies) or _only(entries, is_partial=is_partial)
            if whole is not None:
                _set(run.state, path, whole)
                continue
            unknown = MISSING_SHARDS if is_partial else _UNKNOWN
            run.not_joined[path] = _CHANGED_BUFFER if path[0] == "buffers" else unknown

    def _learn(self, parameter: str, entries: dict[int, Entry], whole: Any) -> None:
        shape = shape_of(whole) if isinstance(whole, dict) else None
        if not shape:
            return
        full = {rank: one for rank, one in sorted(entries.items(), reverse=True) if elements(one)}
        unique = {identity(one): rank for rank, one in full.items()}
        if len(unique) == 1 and shape_of(next(iter(entries.values()))) == shape:
            self._lies[parameter] = _COPIES
            return
        ranks = tuple(sorted(full if len(unique) == 1 else unique.values()))
        places = range(len(shape))
        for dims in (*((dim,) for dim in places), *itertools.combinations(places, 2), ()):
            lies = _Lies(ranks, dims, tuple(shape))
            found = _whole_of(entries, lies)
            if found is not None and found["shape"] == shape and _is_same(found, whole):
                self._lies[parameter] = lies
                return


@dataclass(frozen=True)
class _Lies:
    """Where the shards of a parameter are."""

    ranks: tuple[int, ...] = ()
    """In the order of the shards; empty: each rank has a copy."""
    dims: tuple[int, ...] = ()
    """Along which they lie side by side, or in a grid; none: they are copies, or pieces of all elements in a
    row.
    """
    shape: tuple[int, ...] = ()
    """Of the whole."""


_COPIES = _Lies()


def _whole_of(entries: dict[int, Entry], lies: _Lies | None) -> Entry | None:
    """Of copies that differ the first: whether it is right is for who compares it."""
    if lies is None:
        return None
    if not lies.ranks:
        return entries[min(entries)]
    parts = [entries[rank] for rank in lies.ranks if rank in entries]
    shapes = [shape for part in parts if (shape := shape_of(part)) is not None]
    if len(shapes) < len(lies.ranks):
        return None
    if not lies.dims:
        return added(parts, lies.shape) if all(len(shape) == 1 for shape in shapes) else None
    if any(len(shape) <= max(lies.dims) for shape in shapes):
        return None
    if len(lies.dims) > 1:
        return added(parts, lies.shape) if _is_grid(shapes, lies.shape) else None
    (dim,) = lies.dims
    others = [[*shape[:dim], *shape[dim + 1 :]] for shape in shapes]
    if any(other != others[0] for other in others):
        return None
    found = [*shapes[0][:dim], sum(shape[dim] for shape in shapes), *shapes[0][dim + 1 :]]
    # Zeros behind the end, as a vocabulary has that is made long enough for all ranks.
    if others[0] == [*lies.shape[:dim], *lies.shape[dim + 1 :]] and found[dim] > lies.shape[dim]:
        return added(parts, lies.shape, zeros=math.prod(found) - math.prod(lies.shape))
    return added(parts, found)


def _is_grid(shapes: list[list[int]], whole: tuple[int, ...]) -> bool:
    """How many shards there have to be, their elements tell."""
    first = shapes[0]
    fits = len(first) == len(whole) and all(part and size % part == 0 for part, size in zip(first, whole))
    return fits and all(shape == first for shape in shapes)


def _only(entries: dict[int, Entry], *, is_partial: bool) -> Entry | None:
    """Where the other run does not tell either: what one rank has, or all alike. What one of the ranks that
    are there has may be a shard.
    """
    first = entries[min(entries)]
    is_same = all(identity(one) == identity(first) is not None for one in entries.values())
    if len(entries) == 1:
        return None if is_partial and shape_of(first) else first
    return first if is_same else None


def _leave_out_lacking(mine: Logical, other: State) -> None:
    """What was not recorded may have been there."""
    for path in _lacking(mine.state, other):
        mine.not_joined.setdefault(path, mine.lacking)
    batch, whole = mine.state["inputs"][0]["tensors"], other["inputs"][0]["tensors"]
    for name in whole:
        if name not in batch or elements(batch[name]) != elements(whole[name]):
            batch.pop(name, None)
            mine.not_joined["inputs", "0", "tensors", name] = _NOT_ALL
    groups = [group for one in items(mine.state, "optimizer") for group in items(one, "groups")]
    updated = {name for group in groups for name in group["parameters"]}
    for group in (group for one in items(other, "optimizer") for group in items(one, "groups")):
        group["parameters"] = [name for name in group["parameters"] if name in updated]


def _lacking(mine: Any, other: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Keys that lead to values of parameters and modules that the other run has alone."""
    if isinstance(other, list):
        for place, one in enumerate(other):
            if isinstance(mine, list) and place < len(mine):
                yield from _lacking(mine[place], one, (*path, str(place)))
            elif isinstance(one, dict):
                yield (*path, str(place))
    elif isinstance(other, dict) and not is_tensor(other):
        for name in other if path else [name for name in other if name in _OF_PARAMETERS]:
            if isinstance(mine, dict) and name in mine:
                yield from _lacking(mine[name], other[name], (*path, name))
            elif path:
                yield (*path, name)


def _is_same(found: Entry, whole: Entry) -> bool:
    norm = whole.get("norm")
    if (
        not isinstance(norm, (int, float))
        or found["min"] != whole.get("min")
        or found["max"] != whole.get("max")
    ):
        return False
    return math.isclose(found["norm"], norm, rel_tol=_SAME)


def _at(state: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if isinstance(state, list):
            state = state[int(name)] if int(name) < len(state) else None
        elif isinstance(state, dict):
            state = state.get(name)
        else:
            return None
    return state


def _remove(state: Any, path: tuple[str, ...]) -> None:
    """What one side lacks is no difference of the other."""
    holder = _at(state, path[:-1])
    if isinstance(holder, dict):
        holder.pop(path[-1], None)
    elif isinstance(holder, list):
        del holder[int(path[-1]) :]


def _set(state: Any, path: tuple[str, ...], value: Entry) -> None:
    holder = _at(state, path[:-1])
    if isinstance(holder, dict):
        holder[path[-1]] = value
