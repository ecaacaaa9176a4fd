# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A run of MindSpore and one of PyTorch as two of PyTorch, so that their comparison is that of two runs of
one framework: Cells are the Modules of the same path, functions those of the table, and what only one of the
frameworks knows is left out on both sides.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from msprobe.compare.framework_names import FrameworkNames, keyword_in_pytorch, of_functions
from msprobe.compare.framework_settings import common_settings, parameters_of
from msprobe.compare.inputs import Paths, find_pairs
from msprobe.compare.translated import as_pytorch, write_beside, write_dump, write_json
from msprobe.files.atomic_file import make_directory
from msprobe.files.dump_folders import Form, framework_of, numbered_dumps
from msprobe.files.regular_file import is_there
from msprobe.native import core

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER = "as_pytorch"
_STATE = "diagnosis.json"
_DEEPEST_PREFIX = 4  # levels of wrappers around the network


@dataclass(frozen=True)
class Aligned:
    """Two dump paths of one framework. notes: what is not in them, for the user."""

    target: Path
    reference: Path
    notes: tuple[str, ...] = ()


def are_of_two(target: Path, reference: Path) -> bool:
    """Whether one dump is of MindSpore and the other one of PyTorch."""
    return {framework_of(target), framework_of(reference)} == {"mindspore", "pytorch"}


def aligned(paths: Paths, folder: Path, cells: Mapping[str, str] | None = None) -> Aligned:
    """Writes both runs below `folder`; tensors stay where they are. cells: "path.Class" of a Cell -> that of
    the Module, where the path is another one. Raises as find_pairs() and the readers of dumps.
    """
    inputs = find_pairs(paths)
    ours_first = framework_of(paths.target) == "mindspore"
    notes: Counter[str] = Counter()
    for files in inputs.pairs:
        if files.target.name != "dump.json":
            continue
        pair = (files.target, files.reference) if ours_first else (files.reference, files.target)
        sides = ("target", "reference") if ours_first else ("reference", "target")
        step = {"target": files.step - inputs.offset, "reference": files.step}
        places = [folder / side / f"step{step[side]}" / f"rank{files.rank}" for side in sides]
        _Pair(*pair, cells or {}, notes).write(*places)
    if inputs.form is Form.RUN:
        for side, path in (("target", paths.target), ("reference", paths.reference)):
            _link_others(path, folder / side)
    return Aligned(folder / "target", folder / "reference", tuple(_sentences(notes)))


def _link_others(run: Path, folder: Path) -> None:
    """Steps and ranks that the other run lacks stay in the run, so that they are told of."""
    for step, rank, dump in numbered_dumps(run):
        place = folder / f"step{step}" / f"rank{rank}"
        if not place.exists():
            make_directory(place.parent)
            place.symlink_to(dump.parent.resolve())


def _sentences(notes: Counter[str]) -> list[str]:
    if not notes:
        return []
    most = ", ".join(f"{name} ({count})" for name, count in notes.most_common(5))
    return [
        f"calls of {len(notes)} functions have no counterpart in the other framework: they were compared by "
        f"the Cells and Modules around them: {most}"
    ]


class _Pair:
    """The dumps of one step and rank."""

    def __init__(self, ours: Path, theirs: Path, cells: Mapping[str, str], notes: Counter[str]) -> None:
        """ours: of MindSpore."""
        self._ours, self._theirs = ours, theirs
        self._dumps = core.read_json(ours), core.read_json(theirs)
        self._paths = Paired(self._dumps[0]["data"], self._dumps[1]["data"], cells)
        self._names = replace(of_functions(None), cells=self._paths.cells)
        self._notes = notes

    def write(self, ours: Path, theirs: Path) -> None:
        for folder in (ours, theirs):
            make_directory(folder)
        mine, other = self._dumps
        translated = as_pytorch(mine, self._names)
        common = self._common_calls(translated["data"], other["data"])

        def is_wanted(name: str) -> bool:
            """Records of Modules, and of the functions that both call."""
            call = core.call_of(name)
            return not call or call.rpartition(".")[0] in common

        for name in translated["data"].keys() & other["data"].keys():
            _keep_common(translated["data"][name], other["data"][name])
        write_dump(ours, translated, is_wanted)
        write_dump(theirs, other, is_wanted)
        write_beside(ours, self._ours, self._names, is_wanted)
        write_beside(theirs, self._theirs, FrameworkNames(), is_wanted)
        if is_there(self._ours.with_name(_STATE)) and is_there(self._theirs.with_name(_STATE)):
            states = (
                core.read_json(self._ours.with_name(_STATE)),
                core.read_json(self._theirs.with_name(_STATE)),
            )
            both = zip((ours, theirs), common_settings(*states, self._paths.path_of), (translated, other))
            for folder, state, dump in both:
                write_json(folder / _STATE, {**state, "parameters": parameters_of(dump["data"])})

    def _common_calls(self, ours: dict[str, Any], theirs: dict[str, Any]) -> set[str]:
        """Functions that both call equally often."""
        counts = [_counts(data) for data in (ours, theirs)]
        wanted = {name for name, count in counts[0].items() if counts[1].get(name) == count}
        for count in counts:
            for name in count.keys() - wanted:
                self._notes[name] += count[name]
        return wanted


class Paired:
    """Cells by their paths: which Module is where a Cell is."""

    def __init__(self, ours: Mapping[str, Any], theirs: Mapping[str, Any], given: Mapping[str, str]) -> None:
        mine, other = _places(ours, "Cell."), _places(theirs, "Module.")
        self._before, self._instead = _prefixes(set(mine), set(other))
        self.cells = {}
        for path, kind in mine.items():
            at = self.path_of(path)
            self.cells[f"{path}.{kind}"] = f"{at}.{other.get(at, kind)}"
        self.cells.update(given)

    def path_of(self, path: str) -> str:
        """Of a Cell -> of the Module there."""
        return self._instead + path[len(self._before) :] if path.startswith(self._before) else path


def _places(data: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Path -> class of the modules that were called, or have gradients."""
    found = {}
    for record in data:
        if not record.startswith(prefix):
            continue
        for direction in (".forward.", ".backward.", ".parameters_grad"):
            callee, is_found, _ = record.rpartition(direction)
            if is_found:
                path, _, kind = callee[len(prefix) :].rpartition(".")
                found[path] = kind
                break
    return found


def _prefixes(ours: set[str], theirs: set[str]) -> tuple[str, str]:
    """What wrappers put before the paths of each side: that with which most paths are the same."""
    best, found = len(ours & theirs), ("", "")
    for before in ("", *_beginnings(ours)):
        own = {path[len(before) :] for path in ours if path.startswith(before)}
        for instead in ("", *_beginnings(theirs)):
            same = len(own & {path[len(instead) :] for path in theirs if path.startswith(instead)})
            if same > best:
                best, found = same, (before, instead)
    return found


def _beginnings(paths: set[str]) -> list[str]:
    """The first levels that all paths below them share, shortest first."""
    found = []
    common = min(paths, key=len, default="").split(".")[:-1] if paths else []
    for depth in range(1, min(len(common), _DEEPEST_PREFIX) + 1):
        found.append(".".join(common[:depth]) + ".")
    firsts = {path.split(".")[0] + "." for path in paths if "." in path}
    return [*found, *sorted(firsts - set(found))]


def _counts(data: Mapping[str, Any]) -> Counter[str]:
    """Calls of each function."""
    calls = (core.call_of(name) for name in data if name.endswith(".forward"))
    return Counter(call.rpartition(".")[0] for call in calls if call)


# ---- arguments of a call


def _keep_common(ours: Any, theirs: Any) -> None:
    """What both frameworks give to a function: they have other arguments, in other places."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return
    mine, other = ours.get("input_args"), theirs.get("input_args")
    if isinstance(mine, list) and isinstance(other, list):
        both = min(len(mine), len(other))
        for args in (mine, other):
            del args[both:]
        for index, (a, b) in enumerate(zip(mine, other)):
            if _kind(a) != _kind(b):
                mine[index] = other[index] = None
    mine, other = ours.get("input_kwargs"), theirs.get("input_kwargs")
    if isinstance(mine, dict) and isinstance(other, dict):
        named = {keyword_in_pytorch(key): value for key, value in mine.items()}
        common = [key for key in named if key in other and _kind(named[key]) == _kind(other[key])]
        ours["input_kwargs"] = {key: named[key] for key in common}
        theirs["input_kwargs"] = {key: other[key] for key in common}


def _kind(value: Any) -> object:
    """Tensors with as many dimensions, and settings of one type, are the same argument."""
    if not isinstance(value, dict):
        return type(value)
    shape = value.get("shape")
    return value.get("type"), len(shape) if isinstance(shape, list) else None
