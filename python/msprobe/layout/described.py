# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How plain tensors lie over the ranks, where something beside them says it: the training engine, when it was
recorded (`cut` of diagnosis.json), or the user, in layout.yaml (docs/formats/layout.md).
"""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.files.ranges import numbers
from msprobe.files.yaml_file import kind_of, read_mapping
from msprobe.layout.job import items, section
from msprobe.layout.tensor_entry import is_tensor, shape_of
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from msprobe.layout.job import State

FILE = "layout.yaml"

_DIM = re.compile(r"[A-Za-z0-9_]+(?:\[([^\[\]]+)\])?")
_QUALIFIERS = ("zigzag", "natural", "partial", "replicated")
_SHARD = re.compile(r"(?:Strided)?Shard\((\d+)")
_EXPECTED = 'expected dimensions as "out[tp] in", "s[cp:zigzag] h[tp:partial]" or "h # tp:replicated"'


@dataclass(frozen=True)
class Lies:
    """Of one parameter: along each axis of its mesh, which dimension is cut."""

    mesh: tuple[int, ...]
    """Ranks in row-major order."""
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    placements: tuple[str, ...]
    """Of each axis, as those of a DTensor."""

    def coordinate(self, rank: int) -> list[int]:
        """Empty for a rank that is not there."""
        if rank not in self.mesh:
            return []
        at, found = self.mesh.index(rank), []
        for size in reversed(self.sizes):
            at, place = divmod(at, size)
            found.append(place)
        return found[::-1]

    def piece(self, rank: int) -> tuple[int, ...]:
        """Equal for ranks that hold the same."""
        return tuple(at for at, one in zip(self.coordinate(rank), self.placements) if one != "Replicate")


@dataclass(frozen=True)
class Description:
    """What layout.yaml says."""

    path: str
    axes: Mapping[str, int]
    """Axis of the ranks -> its size; the last one varies fastest."""
    rules: Sequence[tuple[str, tuple[str, ...], int]]
    """Pattern of names, placements along the axes, number of dimensions (0: any); the first that fits."""

    def lies_of(self, name: str, dims: int) -> Lies | None:
        """Raises InvalidArgument."""
        for pattern, placements, count in self.rules:
            if fnmatch.fnmatchcase(name, pattern):
                if count != dims:
                    raise InvalidArgument(
                        f"{self.path}: parameters: {pattern}: expected as many dimensions as {name} has, "
                        f"{dims}, found {count}"
                    )
                sizes = tuple(self.axes.values())
                return Lies(tuple(range(math.prod(sizes))), tuple(self.axes), sizes, placements)
        return None


def read_description(folder: Path) -> Description | None:
    """Of a run, or of the dump in it. None: it has no such file. Raises InvalidArgument that names file, key
    and what is expected.
    """
    found = [at / FILE for at in (folder, folder.parent) if (at / FILE).is_file()]
    if not found:
        return None
    path = str(found[0])
    content = read_mapping(path)
    unknown = set(content) - {"ranks", "parameters"}
    if unknown:
        raise InvalidArgument(f"{path}: {min(unknown)}: expected the keys ranks and parameters")
    axes, rules = content.get("ranks"), content.get("parameters")
    if not isinstance(axes, dict) or not all(type(size) is int and size > 0 for size in axes.values()):
        raise InvalidArgument(f"{path}: ranks: expected a mapping of axes to their sizes, as dp: 2")
    if not isinstance(rules, dict):
        raise InvalidArgument(f"{path}: parameters: expected a mapping of names, found {kind_of(rules)}")
    return Description(path, axes, [_rule(path, str(name), text, axes) for name, text in rules.items()])


def _rule(path: str, name: str, text: object, axes: Mapping[str, int]) -> tuple[str, tuple[str, ...], int]:
    where = f"{path}: parameters: {name}"
    if not isinstance(text, str):
        raise InvalidArgument(f"{where}: {_EXPECTED}, found {kind_of(text)}")
    dims, _, rest = text.partition("#")
    found: dict[str, str] = {}
    for place, dim in enumerate(dims.split()):
        match = _DIM.fullmatch(dim)
        if match is None:
            raise InvalidArgument(f"{where}: {_EXPECTED}, found {dim}")
        for modifier in match[1].split(",") if match[1] else ():
            _put(found, where, axes, modifier.strip(), place)
    for modifier in rest.split():
        _put(found, where, axes, modifier, None)
    return name, tuple(found.get(axis, "Replicate") for axis in axes), len(dims.split())


def _put(
    found: dict[str, str], where: str, axes: Mapping[str, int], modifier: str, place: int | None
) -> None:
    axis, _, qualifier = modifier.partition(":")
    if axis not in axes:
        raise InvalidArgument(f"{where}: {axis}: expected one of the axes {', '.join(axes)}")
    if axis in found:
        raise InvalidArgument(f"{where}: {axis}: expected it once")
    if qualifier and qualifier not in _QUALIFIERS:
        raise InvalidArgument(f"{where}: {qualifier}: expected one of {', '.join(_QUALIFIERS)}")
    if qualifier == "partial":
        found[axis] = "Partial(sum)"
    else:
        is_copied = place is None or qualifier == "replicated"
        found[axis] = "Replicate" if is_copied else f"Shard({place})"


# ---- put to the entries


def place_shards(states: dict[int, State], description: Description | None) -> None:
    """Entries of described parameters, and of their gradients and states, get the key "dtensor", as if they
    had been DTensors. Raises InvalidArgument.
    """
    if description is not None:
        _check_size(states, description)
        _check_agreement(states, description)
    found = {
        rank: {
            name: (lies, shape_of(entry) or [])
            for name, entry in section(state, "parameters").items()
            if is_tensor(entry)
            and "dtensor" not in entry
            and (lies := _lies_of(state, name, len(shape_of(entry) or []), description)) is not None
        }
        for rank, state in states.items()
    }
    shapes: dict[tuple[str, Lies], dict[tuple[int, ...], list[int]]] = {}
    for rank, here in found.items():
        for name, (lies, shape) in here.items():
            shapes.setdefault((name, lies), {})[tuple(lies.coordinate(rank))] = shape
    for rank, here in found.items():
        places = {name: _place(lies, rank, shape, shapes[name, lies]) for name, (lies, shape) in here.items()}
        if places:
            _annotate(states[rank], places)


def _check_size(states: dict[int, State], description: Description) -> None:
    known = math.prod(description.axes.values())
    sizes = {section(state, "layout").get("world_size", 1) for state in states.values()}
    if sizes and sizes != {known}:
        raise InvalidArgument(
            f"{description.path}: ranks: expected sizes whose product is the number of processes, "
            f"{', '.join(map(str, sorted(sizes, key=str)))}, found {known}"
        )


def _check_agreement(states: dict[int, State], description: Description) -> None:
    """What else tells how a parameter lies has to say the same as the file."""
    for state in states.values():
        for name, entry in section(state, "parameters").items():
            shape = shape_of(entry) if is_tensor(entry) else None
            lies = None if shape is None else description.lies_of(name, len(shape))
            if lies is None or shape is None:
                continue
            here = _parts(lies.placements, lies.sizes)
            for who, there in _others(state, name, entry, len(shape)):
                if there != here:
                    raise InvalidArgument(
                        f"{description.path}: parameters: {name}: expected what {who} says, {_told(there)}, "
                        f"found {_told(here)}"
                    )
            for wrapper, ranks in _copied_on(state, name):
                if len({lies.piece(one) for one in ranks}) > 1:
                    raise InvalidArgument(
                        f"{description.path}: parameters: {name}: expected what {wrapper} says, copies on "
                        f"{numbers('rank', ranks)}, found {_told(here)}"
                    )


def _copied_on(state: State, name: str) -> Iterator[tuple[str, list[int]]]:
    """Wrappers that keep it equal, and where."""
    for one in items(section(state, "layout"), "copies"):
        ranks, without = one.get("ranks"), one.get("without") or []
        is_of_model = name.startswith(str(one.get("model", ""))) and name not in without
        if is_of_model and isinstance(ranks, list) and all(type(rank) is int for rank in ranks):
            yield str(one.get("wrapper")), ranks


Parts = dict[int, int]
"""Dimension -> into how many pieces it is cut."""


def _parts(placements: Sequence[str], sizes: Sequence[int]) -> Parts:
    found: Parts = {}
    for placement, size in zip(placements, sizes):
        match = _SHARD.match(placement)
        if match is not None and type(size) is int and size > 1:
            found[int(match[1])] = found.get(int(match[1]), 1) * size
    return found


def _told(parts: Parts) -> str:
    told = (f"dimension {dim} in {count} parts" for dim, count in sorted(parts.items()))
    return ", ".join(told) or "no dimension cut"


def _others(state: State, name: str, entry: dict[str, Any], dims: int) -> Iterator[tuple[str, Parts]]:
    """Who else tells, and what."""
    place = section(entry, "dtensor")
    placements, sizes = place.get("placements"), place.get("mesh_shape")
    if isinstance(placements, list) and isinstance(sizes, list):
        yield "its DTensor", _parts([*map(str, placements)], sizes)
    cut = _written_on(state, name, dims)
    if cut is not None:
        yield "the training engine", _parts(cut.placements, cut.sizes)


def _lies_of(state: State, name: str, dims: int, description: Description | None) -> Lies | None:
    described = None if description is None else description.lies_of(name, dims)
    return described or _written_on(state, name, dims)


def _written_on(state: State, name: str, dims: int) -> Lies | None:
    """By the training engine."""
    for cut in items(section(state, "layout"), "cut"):
        ranks, parameters = cut.get("ranks"), section(cut, "parameters")
        if name in parameters and isinstance(ranks, list) and all(type(rank) is int for rank in ranks):
            dim = parameters[name]
            placement = f"Shard({dim})" if type(dim) is int and 0 <= dim < dims else "Replicate"
            return Lies(tuple(ranks), (str(cut.get("axis", "tp")),), (len(ranks),), (placement,))
    return None


def _place(lies: Lies, rank: int, shape: list[int], others: dict[tuple[int, ...], list[int]]) -> State:
    """As that of a DTensor. others: shapes by coordinate."""
    coordinate = lies.coordinate(rank)
    whole = list(shape)
    for dim in range(len(shape)):
        is_cut = [placement == f"Shard({dim})" for placement in lies.placements]
        if not coordinate or not any(is_cut):
            continue
        line = itertools.product(
            *(range(size) if cut else (at,) for cut, size, at in zip(is_cut, lies.sizes, coordinate))
        )
        found = (others.get(place, []) for place in line)
        whole[dim] = sum(other[dim] for other in found if len(other) == len(shape))
    return {
        "shape": whole,
        "placements": list(lies.placements),
        "mesh": f"ranks {lies.mesh}",
        "mesh_shape": list(lies.sizes),
        "mesh_dims": list(lies.axes),
        "coordinate": coordinate,
        "local_shape": shape,
        "described": True,
    }


def _annotate(value: Any, places: Mapping[str, State]) -> None:
    """All entries of these names, and those of their states, but gradients that are not reduced yet."""
    for one in value if isinstance(value, list) else ():
        _annotate(one, places)
    for key, one in value.items() if isinstance(value, dict) else ():
        if key == "before_reduction":
            continue
        if key not in places:
            _annotate(one, places)
            continue
        place = places[key]
        for entry in one.values() if isinstance(one, dict) and not is_tensor(one) else [one]:
            if is_tensor(entry) and shape_of(entry) == place["local_shape"]:
                entry.update(dtensor=place, shape=place["shape"], part="a shard")
