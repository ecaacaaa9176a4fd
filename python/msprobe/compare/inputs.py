# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which files of two runs belong together: the forms in which a user names them, paired by step and rank."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from msprobe.files.dump_folders import DUMPS, RANK, STEP, Form, form_of, number_of, numbered
from msprobe.files.json_file import read_flag, read_object, read_path, warn_of_unknown_keys
from msprobe.files.left_out import LeftOut, left_out, only_in
from msprobe.files.regular_file import is_there
from msprobe.files.run_folder import dump_of, offset_of
from msprobe.native import InvalidArgument, NothingToCompare, core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    import re
    from collections.abc import Collection


@dataclass(frozen=True)
class Paths:
    """What the user wants compared."""

    target: Path
    """The target."""
    reference: Path
    """The reference."""
    stack: Path | None = None
    """stack.json of the target, when the user named one; only for two files."""
    shows_log: bool = True
    offset: int | None = None
    """The step of the reference at which the target begins; None: as the runs say."""


@dataclass(frozen=True)
class DumpFiles:
    """Two dumps that belong together, and where their results go."""

    step: int
    rank: int
    target: Path
    reference: Path
    folder: str = ""
    """Below the output folder."""
    suffix: str = ""
    """Of the names of the results: "_rank0"."""

    def left_out(self, reason: str, name: str = "") -> LeftOut:
        """What says that these were not compared, or the file `name` beside them."""
        return left_out(reason, self.step, self.rank, name or self._kind)

    @property
    def _kind(self) -> str:
        return "debug.json" if self.target.name.startswith("debug") else ""


@dataclass(frozen=True)
class Inputs:
    """All pairs, by step, then rank, and what has no counterpart."""

    pairs: list[DumpFiles]
    left_out: list[LeftOut]
    form: Form
    offset: int = 0
    """Step S of the target is step S + offset of the reference, and has its number."""


def read_compare_file(path: str) -> Paths:
    """compare.json of mindstudio-probe: `npu_path`, `bench_path`, `stack_path`, `is_print_compare_log`.

    Raises InvalidArgument, FormatError and IoError that name the file and the key.
    """
    content = read_object(path, 'an object with "npu_path" and "bench_path"')
    warn_of_unknown_keys(path, content, ("npu_path", "bench_path", "stack_path", "is_print_compare_log"))
    shows_log = read_flag(path, content, "is_print_compare_log", default=True)
    stack = read_path(path, content, "stack_path") if content.get("stack_path") is not None else None
    return Paths(
        target=read_path(path, content, "npu_path"),
        reference=read_path(path, content, "bench_path"),
        stack=stack,
        shows_log=shows_log,
    )


def find_pairs(
    paths: Paths, *, ranks: Collection[int] | None = None, steps: Collection[int] | None = None
) -> Inputs:
    """Pairs the files of both runs. Ranks and steps are paired by their numbers; `rank` without one and
    `proc{pid}`, as newer releases of mindstudio-probe name it, are rank 0.

    `ranks`, `steps`: no others. Raises InvalidArgument when a path is missing or the two are of different
    forms, and NothingToCompare when nothing of one run is in the other.
    """
    target, reference = dump_of(paths.target), dump_of(paths.reference)
    form = form_of(target)
    if (other := form_of(reference)) is not form:
        raise InvalidArgument(
            f"expected two paths of the same kind: {target} is {form.value}, {reference} is {other.value}"
        )
    if steps is not None and form is not Form.RUN:
        raise InvalidArgument(f"{target} is {form.value}: steps can be chosen in a dump_path only")
    if ranks is not None and form in (Form.FILE, Form.RANK):
        raise InvalidArgument(f"{target} is {form.value}: ranks can be chosen in folders of ranks only")
    if paths.offset and form is not Form.RUN:
        raise InvalidArgument(f"{target} is {form.value}: an offset is one of the steps in a dump_path")
    offset = offset_of(target, reference, paths.offset) if form is Form.RUN else 0
    search = _Search(ranks, steps, offset)
    if form is Form.FILE:
        search.files(target, reference)
    elif form is Form.RANK:
        place = _Place(number_of(STEP, target.resolve().parent), number_of(RANK, target.resolve()))
        search.rank(place, target, reference)
    elif form is Form.STEP:
        search.step(_Place(number_of(STEP, target.resolve())), target, reference)
    else:
        search.run(target, reference)
    if not search.pairs:
        reasons = "; ".join(f"{one.what}: {one.reason}" for one in search.left_out[:3])
        begins = f" where the target begins at step {offset} of the reference" if offset else ""
        raise NothingToCompare(
            f"{paths.target} and {paths.reference} have nothing in common{begins}"
            + (f" ({reasons})" if reasons else "")
        )
    return Inputs(search.pairs, search.left_out, form, offset)


@dataclass(frozen=True)
class _Place:
    """Where the search is, and where results of it go."""

    step: int = 0
    rank: int = 0
    folder: str = ""
    suffix: str = ""


class _Search:
    def __init__(self, ranks: Collection[int] | None, steps: Collection[int] | None, offset: int) -> None:
        self.pairs: list[DumpFiles] = []
        self.left_out: list[LeftOut] = []
        self._ranks = ranks
        self._steps = steps
        self._offset = offset

    def run(self, target: Path, reference: Path) -> None:
        for step, ours, theirs in self._paired(target, reference, STEP, self._steps, self._offset):
            self.step(_Place(step, folder=f"step{step}"), ours, theirs)

    def step(self, place: _Place, target: Path, reference: Path) -> None:
        step = place.step if place.folder else None
        for rank, ours, theirs in self._paired(target, reference, RANK, self._ranks, of_step=step):
            suffix = "_rank" if ours.name.startswith("proc") else f"_{ours.name}"
            self.rank(_Place(place.step, rank, place.folder, suffix), ours, theirs)

    def rank(self, place: _Place, target: Path, reference: Path) -> None:
        for name in DUMPS:
            ours, theirs = target / name, reference / name
            has_ours, has_theirs = is_there(ours), is_there(theirs)
            if has_ours and has_theirs:
                self._add(place, ours, theirs)
            elif has_ours or has_theirs:
                self.left_out.append(only_in(_side(has_ours), place.step, place.rank, name))
        if not any(is_there(target / name) or is_there(reference / name) for name in DUMPS):
            self.left_out.append(left_out("no dump.json in either run", place.step, place.rank))
        self._beside(place, target, reference)

    def _beside(self, place: _Place, target: Path, reference: Path) -> None:
        for name, is_compared in _BESIDE.items():
            ours, theirs = is_there(target / name), is_there(reference / name)
            if ours is not theirs:
                alone = only_in(_side(ours), place.step, place.rank, name)
                self.left_out.append(replace(alone, is_difference=is_compared))

    def files(self, target: Path, reference: Path) -> None:
        if target.name != reference.name:
            raise InvalidArgument(
                f"expected two files of the same name, found {target} and {reference}: dump.json is compared "
                "with dump.json, debug.json with debug.json"
            )
        folder = target.resolve().parent
        place = _Place(number_of(STEP, folder.parent), number_of(RANK, folder))
        self._add(place, target, reference)
        self._beside(place, folder, reference.resolve().parent)

    def _add(self, place: _Place, target: Path, reference: Path) -> None:
        self.pairs.append(DumpFiles(place.step, place.rank, target, reference, place.folder, place.suffix))

    def _paired(
        self,
        target: Path,
        reference: Path,
        pattern: re.Pattern[str],
        wanted: Collection[int] | None,
        offset: int = 0,
        *,
        of_step: int | None = None,
    ) -> list[tuple[int, Path, Path]]:
        """The folders of the same number, in the order of numbers; the others are noted, but for those that
        one run made before the other began.
        """

        def place(number: int) -> tuple[int | None, int | None]:
            return (number, None) if pattern is STEP else (of_step, number)

        ours = {number + offset: path for number, path in numbered(target, pattern).items()}
        theirs = numbered(reference, pattern)
        if wanted is not None:
            for number in sorted(set(wanted) - set(ours) - set(theirs)):
                self.left_out.append(left_out("asked for, but in neither run", *place(number)))
        pairs = []
        for number in sorted({*ours, *theirs}):
            if (wanted is not None and number not in wanted) or number < max(offset, 0):
                continue
            if number in ours and number in theirs:
                pairs.append((number, ours[number], theirs[number]))
            else:
                self.left_out.append(only_in(_side(number in ours), *place(number)))
        return pairs


# What lies beside a dump, and whether a comparison of the values has less to compare without it.
_BESIDE = {"diagnosis.json": True, "construct.json": False, "stack.json": False, "summary.json": False}


def _side(is_target: bool) -> str:
    return "target" if is_target else "reference"


def read_data_mapping(path: str) -> dict[str, str]:
    """YAML: name of an item of the target -> its name in the reference. Raises InvalidArgument."""
    from msprobe.files.yaml_file import kind_of, read_mapping

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


def mapping_of(data_mapping: str | os.PathLike[str] | Mapping[str, str] | None) -> Mapping[str, str]:
    """Of what a Python program gives. Raises as read_data_mapping()."""
    if data_mapping is None or isinstance(data_mapping, Mapping):
        return data_mapping or {}
    return read_data_mapping(os.fspath(data_mapping))


def stack_path(files: DumpFiles, paths: Paths, *, stack_mode: bool) -> Path | None:
    """Which stack.json gives the column of stacks; None: there is no such column.

    As in mindstudio-probe: a `stack_path` that the user named is used in stack mode only; without one, the
    file beside the dump is used where there is one.
    """
    if paths.stack is not None and files.target == paths.target:
        return paths.stack if stack_mode else None
    return core.default_stack_path(files.target)
