# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which files of two runs belong together: the forms in which a user names them, paired by step and rank."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from msprobe.compare.result import LeftOut
from msprobe.native import FormatError, InvalidArgument, IoError, NothingToCompare, core, log

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

DUMPS = ("dump.json", "debug.json")
_RANK = re.compile(r"rank([0-9]{0,9})")
_STEP = re.compile(r"step([0-9]{1,9})")
_LARGEST_FILE = 1 << 20  # of compare.json


class Form(Enum):
    """What a path is."""

    FILE = "a dump.json or debug.json"
    RANK = "the folder of a rank, with dump.json or debug.json"
    STEP = "the folder of a step, with rank0, rank1, ..."
    RUN = "a dump_path, with step0, step1, ..."


@dataclass(frozen=True)
class Paths:
    """What the user wants compared."""

    target: Path
    """The run under test."""
    golden: Path
    """The reference."""
    stack: Path | None = None
    """stack.json of the run under test, when the user named one; only for two files."""
    shows_log: bool = True


@dataclass(frozen=True)
class DumpFiles:
    """Two dumps that belong together, and where their results go."""

    step: int
    rank: int
    target: Path
    golden: Path
    folder: str = ""
    """Below the output folder."""
    suffix: str = ""
    """Of the names of the results: "_rank0"."""

    @property
    def what(self) -> str:
        kind = ", debug.json" if self.target.name.startswith("debug") else ""
        return f"step {self.step}, rank {self.rank}{kind}"


@dataclass(frozen=True)
class Inputs:
    """All pairs, by step, then rank, and what has no counterpart."""

    pairs: list[DumpFiles]
    left_out: list[LeftOut]
    form: Form


def read_compare_file(path: str) -> Paths:
    """compare.json of the existing tool: `npu_path`, `bench_path`, `stack_path`, `is_print_compare_log`.

    Raises InvalidArgument, FormatError and IoError that name the file and the key.
    """
    content = _read_json(path)
    for key in content:
        if key not in ("npu_path", "bench_path", "stack_path", "is_print_compare_log"):
            log.warning('%s: "%s" is ignored: there is no such key', path, key[:60])
    shows_log = content.get("is_print_compare_log", True)
    if not isinstance(shows_log, bool):
        raise InvalidArgument(
            f'{path}: "is_print_compare_log": expected true or false, found {_shown(shows_log)}'
        )
    stack = _path_of(path, content, "stack_path") if content.get("stack_path") is not None else None
    return Paths(
        target=_path_of(path, content, "npu_path"),
        golden=_path_of(path, content, "bench_path"),
        stack=stack,
        shows_log=shows_log,
    )


def find_pairs(
    paths: Paths, *, ranks: Collection[int] | None = None, steps: Collection[int] | None = None
) -> Inputs:
    """Pairs the files of both runs. Ranks and steps are paired by their numbers; `rank` without one is rank
    0.

    `ranks`, `steps`: no others. Raises InvalidArgument when a path is missing or the two are of different
    forms, and NothingToCompare when nothing of one run is in the other.
    """
    form = form_of(paths.target)
    if (other := form_of(paths.golden)) is not form:
        raise InvalidArgument(
            f"expected two paths of the same kind: {paths.target} is {form.value}, "
            f"{paths.golden} is {other.value}"
        )
    if steps is not None and form is not Form.RUN:
        raise InvalidArgument(f"{paths.target} is {form.value}: steps can be chosen in a dump_path only")
    if ranks is not None and form in (Form.FILE, Form.RANK):
        raise InvalidArgument(f"{paths.target} is {form.value}: ranks can be chosen in folders of ranks only")
    search = _Search(ranks, steps)
    if form is Form.FILE:
        search.files(paths.target, paths.golden)
    elif form is Form.RANK:
        place = _Place(
            _number_of(_STEP, paths.target.resolve().parent), _number_of(_RANK, paths.target.resolve())
        )
        search.rank(place, paths.target, paths.golden)
    elif form is Form.STEP:
        search.step(_Place(_number_of(_STEP, paths.target.resolve())), paths.target, paths.golden)
    else:
        search.run(paths.target, paths.golden)
    if not search.pairs:
        reasons = "; ".join(f"{one.what}: {one.reason}" for one in search.left_out[:3])
        raise NothingToCompare(
            f"{paths.target} and {paths.golden} have nothing in common" + (f" ({reasons})" if reasons else "")
        )
    return Inputs(search.pairs, search.left_out, form)


def form_of(path: Path) -> Form:
    """Raises InvalidArgument that says what was expected."""
    if not path.exists():
        raise InvalidArgument(f"{path}: there is no such file or folder; expected a dump")
    if not path.is_dir():
        if path.name not in DUMPS:
            raise InvalidArgument(
                f"{path}: expected a file called dump.json or debug.json, or a folder with one"
            )
        return Form.FILE
    names = _names_in(path)
    if any(name in names for name in DUMPS):
        return Form.RANK
    if any(_RANK.fullmatch(name) for name in names):
        return Form.STEP
    if any(_STEP.fullmatch(name) for name in names):
        return Form.RUN
    raise InvalidArgument(
        f"{path}: expected dump.json or debug.json, or folders rank{{N}} or step{{N}} in it"
    )


@dataclass(frozen=True)
class _Place:
    """Where the search is, and where results of it go."""

    step: int = 0
    rank: int = 0
    folder: str = ""
    suffix: str = ""


class _Search:
    def __init__(self, ranks: Collection[int] | None, steps: Collection[int] | None) -> None:
        self.pairs: list[DumpFiles] = []
        self.left_out: list[LeftOut] = []
        self._ranks = ranks
        self._steps = steps

    def run(self, target: Path, golden: Path) -> None:
        for step, ours, theirs in self._paired(target, golden, _STEP, self._steps, "step"):
            self.step(_Place(step, folder=f"step{step}"), ours, theirs)

    def step(self, place: _Place, target: Path, golden: Path) -> None:
        prefix = f"step {place.step}, rank" if place.folder else "rank"
        for rank, ours, theirs in self._paired(target, golden, _RANK, self._ranks, prefix):
            suffix = f"_{ours.name}"
            self.rank(_Place(place.step, rank, place.folder, suffix), ours, theirs)

    def rank(self, place: _Place, target: Path, golden: Path) -> None:
        for name in DUMPS:
            ours, theirs = target / name, golden / name
            if ours.exists() and theirs.exists():
                self._add(place, ours, theirs)
            elif ours.exists() or theirs.exists():
                what = f"step {place.step}, rank {place.rank}, {name}"
                self._leave_out(what, only_in_target=ours.exists())

    def files(self, target: Path, golden: Path) -> None:
        if target.name != golden.name:
            raise InvalidArgument(
                f"expected two files of the same name, found {target} and {golden}: dump.json is compared "
                "with dump.json, debug.json with debug.json"
            )
        folder = target.resolve().parent
        self._add(_Place(_number_of(_STEP, folder.parent), _number_of(_RANK, folder)), target, golden)

    def _add(self, place: _Place, target: Path, golden: Path) -> None:
        self.pairs.append(DumpFiles(place.step, place.rank, target, golden, place.folder, place.suffix))

    def _leave_out(self, what: str, *, only_in_target: bool) -> None:
        side = "the run under test" if only_in_target else "the reference"
        self.left_out.append(LeftOut(what, f"only in {side}"))

    def _paired(
        self, target: Path, golden: Path, pattern: re.Pattern[str], wanted: Collection[int] | None, what: str
    ) -> list[tuple[int, Path, Path]]:
        """The folders of the same number, in the order of numbers; the others are noted."""
        ours, theirs = _numbered(target, pattern), _numbered(golden, pattern)
        if wanted is not None:
            for number in sorted(set(wanted) - set(ours) - set(theirs)):
                self.left_out.append(LeftOut(f"{what} {number}", "asked for, but in neither run"))
        pairs = []
        for number in sorted({*ours, *theirs}):
            if wanted is not None and number not in wanted:
                continue
            if number in ours and number in theirs:
                pairs.append((number, ours[number], theirs[number]))
            else:
                self._leave_out(f"{what} {number}", only_in_target=number in ours)
        return pairs


def _numbered(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    """The folders of ranks or steps by number. What is called otherwise is passed by."""
    found: dict[int, Path] = {}
    for name in sorted(_names_in(folder)):
        match = pattern.fullmatch(name)
        if match is None:
            continue
        number = int(match[1] or 0)
        if number in found:
            raise InvalidArgument(
                f"{folder}: expected one folder for each number, found {found[number].name} and {name}"
            )
        found[number] = folder / name
    return found


def _names_in(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError as error:
        raise InvalidArgument(f"{folder}: cannot be read: {error.strerror}") from error


def _number_of(pattern: re.Pattern[str], path: Path) -> int:
    match = pattern.fullmatch(path.name)
    return int(match[1] or 0) if match else 0


# ---- compare.json


def _read_json(path: str) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        result = IoError(f"{path}: cannot be read: {error.strerror}")
        result.errno, result.filename = error.errno, path
        raise result from error
    if len(data) > _LARGEST_FILE:
        raise FormatError(f"{path}: expected at most 1 MiB of JSON that names two dumps")

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            raise ValueError("a key stands twice in one object")
        return content

    try:
        content = json.loads(data.decode("utf-8-sig"), object_pairs_hook=without_duplicates)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: expected JSON: {error}") from None
    if not isinstance(content, dict):
        raise FormatError(
            f'{path}: expected an object with "npu_path" and "bench_path", found {_shown(content)}'
        )
    return content


def _path_of(path: str, content: Mapping[str, Any], key: str) -> Path:
    if key not in content:
        raise InvalidArgument(f'{path}: "{key}": expected a path, found no such key')
    value = content[key]
    if not isinstance(value, str) or not value or "\0" in value:
        raise InvalidArgument(f'{path}: "{key}": expected a path, found {_shown(value)}')
    if not os.path.exists(value):
        raise InvalidArgument(f'{path}: "{key}": there is no {value}')
    return Path(value)


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def read_data_mapping(path: str) -> dict[str, str]:
    """YAML: name of an item of the run under test -> its name in the reference. Raises InvalidArgument."""
    from msprobe.yaml_file import kind_of, read_mapping

    mapping: dict[str, str] = {}
    for name, other in read_mapping(path).items():
        if not isinstance(other, str) or not other:
            raise InvalidArgument(
                f'{path}: "{name[:60]}": expected the name of an item, found {kind_of(other)}'
            )
        mapping[name] = other
    if not mapping:
        raise InvalidArgument(f"{path}: expected names of items, found an empty mapping")
    return mapping


def stack_path(files: DumpFiles, paths: Paths, *, stack_mode: bool) -> Path | None:
    """Which stack.json gives the column of stacks; None: there is no such column.

    As in the existing tool: a `stack_path` that the user named is used in stack mode only; without one, the
    file beside the dump is used where there is one.
    """
    if paths.stack is not None and files.target == paths.target:
        return paths.stack if stack_mode else None
    return core.default_stack_path(files.target)
