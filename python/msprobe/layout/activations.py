# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What modules get and give in the forward and the backward pass, of all ranks and micro-batches of one step,
as one call of each module.

A tensor is known by sums that depend neither on the order of its parts nor on the dimension along which it
was cut: number of elements, extremes, mean, norm. So the parts of all ranks are added up, whatever cut them:
a batch, a sequence, columns of a matrix. What several ranks have to the last bit is one part. A module is
joined where both runs then have as many elements of each tensor; summands, which do not lie side by side, are
not joined.

A rank or micro-batch has a loss of its own, of which the training makes that of the batch later: as a mean,
by the number of its samples, by an engine's scale. Backward passes are linear in the loss, so those of a run
are those of the other one times one number, which is taken from what comes into them. Where one number is not
enough, as the loss weighs parts of the batch otherwise, they are not joined. Whether the number is right, the
gradients of the weights tell, which are compared as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory
from msprobe.layout.job import section
from msprobe.layout.names import plain_to
from msprobe.layout.tensor_entry import added, elements, identity, shape_of, sketch_of
from msprobe.layout.unsharding import half_the_digits, scaled, wholes_of
from msprobe.native import Error, core

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from pathlib import Path

    from msprobe.layout.job import Job, State
    from msprobe.layout.names import Prefixes
    from msprobe.layout.tensor_entry import Entry

# Keys of a tensor in dump.json (docs/formats/dump.md), and those of it in diagnosis.json.
_NUMBERS = {"Max": "max", "Min": "min", "Mean": "mean", "Norm": "norm"}
_ARGUMENTS = {"forward": ("input_args", "input_kwargs", "output"), "backward": ("input", "output")}


@dataclass
class Call:
    """All calls of one module in one direction."""

    name: str
    first: State
    """Name and entry of the first of them, in dump.json."""
    parts: list[dict[Hashable, Entry]] = field(default_factory=list)
    """Of each tensor of the entry, those of all calls."""
    is_whole: bool = True
    """All calls have the tensors of the first one, and as many backward passes; no tensor is a summand."""
    weights: dict[str, dict[Hashable, Entry]] = field(default_factory=dict)
    """Parts of the parameters, of calls whose tensors are files."""

    @property
    def direction(self) -> str:
        return self.name.split(".")[-2]

    @property
    def passes(self) -> Any:
        """Of the backward pass through it, where there are several: the entry is of the last."""
        return self.first.get("passes")

    def add(self, call: Hashable, entry: State, folder: Path) -> None:
        """folder: with the files of the tensors, where there are any."""
        found: list[Entry] = []
        _each_tensor(entry, _ARGUMENTS[self.direction], found.append)
        self.parts = self.parts or [{} for _ in found]
        self.is_whole &= len(found) == len(self.parts) and not any(map(_is_summand, found))
        self.is_whole &= entry.get("passes") == self.passes
        for parts, tensor in zip(self.parts, found):
            _add_part(parts, call, tensor, folder)
        for name, tensor in section(entry, "parameters").items():
            if isinstance(tensor, dict) and "data_name" in tensor:
                _add_part(self.weights.setdefault(name, {}), call, tensor, folder)


def _add_part(parts: dict[Hashable, Entry], call: Hashable, tensor: Entry, folder: Path) -> None:
    one = _numbers_of(tensor)
    if isinstance(name := tensor.get("data_name"), str):
        one["file"] = folder / name
    key = identity(one)
    parts[call if key is None else key] = one


def calls_of(job: Job, step: int, names: dict[int, Prefixes]) -> Calls:
    """names: by rank, what modules are called otherwise. By the path of the module and the direction, in the
    order in which they end.
    """
    found: Calls = {}
    for rank, dump in job.dumps_of(step):
        folder = job.steps[step][rank] / TENSORS
        for name, entry in section(dump, "data").items():
            kind, *path, _, direction, _ = name.split(".") if name.count(".") > 2 else (name, "", "", "")
            if kind != "Module" or direction not in _ARGUMENTS or not isinstance(entry, dict):
                continue
            if entry.get("is_recompute"):
                continue
            place = plain_to(".".join(path), names.get(rank, {}))
            found.setdefault((place, direction), Call(name, entry)).add((rank, name), entry, folder)
    return found


TENSORS = "dump_tensor_data"
"""Beside dump.json: the tensors of task "tensor", one file each."""

Calls = dict[tuple[str, str], Call]
"""By the path of the module, and "forward" or "backward"."""


@dataclass
class JoinedCalls:
    """The `data` of a dump.json for each side."""

    data: tuple[State, State] = field(default_factory=lambda: ({}, {}))
    left_out: list[str] = field(default_factory=list)
    """Modules that cannot be held against each other: their paths."""
    has_files: bool = False
    """Tensors of the entries are files."""


def joined_calls(
    sides: tuple[Calls, Calls], parameters: tuple[State, State], folders: tuple[Path, Path]
) -> JoinedCalls:
    """What both sides have of each module that both call. parameters: of the logical runs. folders: for the
    tensors that are put together of files.
    """
    joined = JoinedCalls()
    of_modules = [_by_module(known) for known in parameters]
    scale: float | None = None
    for (path, direction), ours in sides[0].items():
        theirs = sides[1].get((path, direction))
        if theirs is None:
            continue
        wholes = _comparable(ours, theirs)
        if wholes is not None and direction == "backward":
            scale = _scale(*wholes) if scale is None else scale
            wholes = (wholes[0], [_scaled(one, scale) for one in wholes[1]]) if scale else None
        if wholes is None:
            if path not in joined.left_out:
                joined.left_out.append(path)
            continue
        name = ".".join(filter(None, ("Module", path, *ours.name.split(".")[-3:-1], "0")))
        files = _Files(folders, ours.name, name)
        by = scale if direction == "backward" and scale is not None else 1.0
        for parts, pair in zip(zip(ours.parts, theirs.parts), zip(*wholes)):
            files.write(parts, pair, by)
        weights = [known.get(path, {}) if direction == "forward" else {} for known in of_modules]
        for one in weights[0].keys() & weights[1].keys() & ours.weights.keys() & theirs.weights.keys():
            files.write((ours.weights[one], theirs.weights[one]), (weights[0][one], weights[1][one]))
        joined.has_files |= files.are_there
        for data, call, whole, known in zip(joined.data, (ours, theirs), wholes, weights):
            data[name] = _each_tensor(call.first, _ARGUMENTS[direction], partial(_next, iter(whole)))
            if direction == "forward":
                data[name] |= {"parameters": known, "is_recompute": False}
            elif call.passes is not None:
                data[name]["passes"] = call.passes
    return joined


@dataclass
class _Files:
    """Tensors of one call that are put together."""

    folders: tuple[Path, Path]
    recorded: str
    """Name of the first call that was recorded."""
    name: str
    are_there: bool = False

    def write(
        self,
        parts: tuple[dict[Hashable, Entry], dict[Hashable, Entry]],
        entries: tuple[Entry, Entry],
        scale: float = 1.0,
    ) -> None:
        """scale: of the second one. The entries name the files, where those of the parts fit together."""
        paths = [[one["file"] for one in side.values() if "file" in one] for side in parts]
        if any(len(found) < len(side) for found, side in zip(paths, parts)):
            return
        try:
            whole = wholes_of(*paths)
        except Error:  # a file is missing, or damaged: what is known of it is in dump.json
            return
        if whole is None:
            return
        one, other, dtype = whole
        other = other if scale == 1.0 else scaled(other, dtype, scale)
        file = self.name + paths[0][0].stem.removeprefix(self.recorded) + ".pt"
        for folder, entry, content in zip(self.folders, entries, (one, other)):
            make_directory(folder)
            core.write_pt(folder / file, content.data, dtype=dtype)
            entry |= {"data_name": file, "shape": list(content.shape)}
        self.are_there = True


def hierarchy(names: Iterable[str]) -> State:
    """The content of construct.json for such calls: inside which of them each is, outer ones first."""
    by_path = {(".".join(name.split(".")[1:-3]), name.split(".")[-2]): name for name in names}
    found: State = {}
    for path, direction in sorted(by_path, key=lambda place: place[0].count(".")):
        outer = path.rpartition(".")[0]
        while outer and (outer, direction) not in by_path:
            outer = outer.rpartition(".")[0]
        found[by_path[path, direction]] = by_path[outer, direction] if outer else None
    return found


def _comparable(ours: Call, theirs: Call) -> tuple[list[Entry], list[Entry]] | None:
    """The tensors of both, in the form of dump.json."""
    if not (ours.is_whole and theirs.is_whole) or len(ours.parts) != len(theirs.parts):
        return None
    if ours.passes != theirs.passes:
        return None
    both: tuple[list[Entry], list[Entry]] = ([], [])
    for parts in zip(ours.parts, theirs.parts):
        shape = _common_shape(*parts)
        wholes = [_whole(list(one.values())) for one in parts]
        for written, whole in zip(both, wholes):
            if shape is None or whole is None:
                return None
            written.append(_written(whole, shape))
    return both


def _scale(ours: list[Entry], theirs: list[Entry]) -> float:
    """What the first backward call of `theirs` has to be multiplied with to be that of `ours`; 0: no number
    makes it so.
    """
    one, other = ours[0], theirs[0]
    if not one["Norm"] or not other["Norm"]:
        return 0.0
    scale = float(one["Norm"] / other["Norm"])
    far = max(abs(one[name] - scale * other[name]) for name in ("Max", "Min"))
    return scale if far <= max(abs(one["Max"]), abs(one["Min"])) * half_the_digits(one["dtype"]) else 0.0


def _scaled(tensor: Entry, scale: float) -> Entry:
    if scale == 1.0:
        return tensor
    numbers = {name: tensor[name] * scale for name in _NUMBERS if tensor[name] is not None}
    return {key: value for key, value in tensor.items() if key != "sketch"} | numbers


def _each_tensor(entry: State, arguments: Iterable[str], act: Callable[[Entry], Any]) -> State:
    """A copy of the arguments and results of an entry with what `act` returns in the place of each tensor.
    Integers, which may be sizes of a part, are left out.
    """

    def copy(value: Any) -> Any:
        if isinstance(value, dict):
            if "Norm" in value and "dtype" in value:
                return act(value)
            if value.get("type") == "int":
                return None
            return {key: copy(one) for key, one in value.items()}
        return [copy(one) for one in value] if isinstance(value, list) else value

    return {name: copy(entry.get(name)) for name in arguments}


def _next(left: Iterator[Entry], _: Entry) -> Entry:
    return next(left)


def _is_summand(tensor: Entry) -> bool:
    return any(
        "Partial" in str(placement) for placement in section(tensor, "dtensor").get("placements") or []
    )


def _numbers_of(tensor: Entry) -> Entry:
    kept = {key: tensor[key] for key in ("dtype", "shape", "requires_grad", "sketch") if key in tensor}
    numbers = {ours: tensor.get(name) for name, ours in _NUMBERS.items()}
    numbers = {name: one if isinstance(one, (int, float)) else None for name, one in numbers.items()}
    # The recorded mean and norm are of the dtype of the tensor: the means of parts may cancel out.
    sketch = sketch_of(tensor)
    return (
        kept
        | numbers
        | ({"mean": sketch["mean"], "norm": sketch["norm"]} if sketch and sketch["is_finite"] else {})
    )


def _whole(parts: list[Entry]) -> Entry | None:
    return added(parts, [sum(map(elements, parts))])


def _common_shape(ours: dict[Hashable, Entry], theirs: dict[Hashable, Entry]) -> list[int] | None:
    """That of the side with fewer parts; None: the two are not the same tensor."""
    counts = [sum(map(elements, parts.values())) for parts in (ours, theirs)]
    if counts[0] != counts[1]:
        return None
    fewer = min((ours, theirs), key=len)
    return shape_of(next(iter(fewer.values()))) if len(fewer) == 1 else [counts[0]]


def _written(whole: Entry, shape: list[int]) -> Entry:
    numbers = {name: whole.get(ours) for name, ours in _NUMBERS.items()}
    kept = {key: whole[key] for key in ("requires_grad", "sketch") if key in whole}
    return {"type": "torch.Tensor", "dtype": whole["dtype"], "shape": shape} | numbers | kept


def _by_module(parameters: State) -> dict[str, State]:
    """Those of each module itself, by its path, as dump.json has them."""
    found: dict[str, State] = {}
    for name, one in parameters.items():
        if isinstance(one, dict):
            path, _, own = name.rpartition(".")
            found.setdefault(path, {})[own] = _written(one, shape_of(one) or [])
    return found
