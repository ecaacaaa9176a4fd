# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which folders graphs are made of: one rank, the ranks of a step, the steps of a run; alone or in pairs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from msprobe.files.dump_folders import RANK, STEP, Form, folder_of, form_of, numbered
from msprobe.files.json_file import read_flag, read_object, read_path, shown, warn_of_unknown_keys
from msprobe.files.left_out import LeftOut, lines, only_in
from msprobe.native import InvalidArgument, NothingToCompare, core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    import re
    from collections.abc import Mapping
    from typing import Any

_KEYS = ("npu_path", "bench_path", "is_print_compare_log", "parallel_merge")
_SIZES = ("rank_size", "tp", "pp", "vpp", "cp", "ep")
_OPTIONAL = {"vpp": 1, "cp": 1, "ep": 1}
_ORDER = "tp-cp-ep-dp-pp"


@dataclass(frozen=True)
class Layout:
    """How a parallel job was split: the member of `parallel_merge` for one side."""

    rank_size: int
    tp: int
    pp: int
    vpp: int = 1
    cp: int = 1
    ep: int = 1
    order: str = _ORDER

    def check(self, where: str) -> Layout:
        """Raises InvalidArgument, which begins with `where` and names the key, for sizes that do not fit."""
        core.check_layout(asdict(self), where)
        return self


@dataclass(frozen=True)
class Paths:
    """What the user wants to see."""

    target: Path
    """The target, or the only one."""
    reference: Path | None = None
    """The reference."""
    merges: bool = False
    """The ranks of a step become one graph per replica."""
    target_layout: Layout | None = None
    """How they were split; None: found out from what they send each other."""
    reference_layout: Layout | None = None


Folders = list[tuple[int, Path]]
"""Numbers of ranks, and their folders."""


@dataclass(frozen=True)
class Unit:
    """What is read together: one rank of a step, or all of them where they are merged."""

    step: int
    target: Folders
    reference: Folders


@dataclass(frozen=True)
class Inputs:
    """All units, by step, then rank, and what one run has alone. Folders of single steps and ranks have
    number 0, whatever they are called, as in mindstudio-probe.
    """

    units: list[Unit]
    left_out: list[LeftOut]


def read_compare_file(path: str) -> Paths:
    """compare.json: `npu_path`, `bench_path`, `is_print_compare_log`, `parallel_merge`.

    Raises InvalidArgument, FormatError and IoError that name the file and the key.
    """
    content = read_object(path, 'an object with "npu_path"')
    warn_of_unknown_keys(path, content, _KEYS)
    read_flag(path, content, "is_print_compare_log", default=True)  # there are no such lines to print
    merge = content.get("parallel_merge") or {}
    if not isinstance(merge, dict):
        raise InvalidArgument(f'{path}: "parallel_merge": expected an object, found {shown(merge)}')
    has_reference = bool(content.get("bench_path"))
    target_layout = _layout(path, merge, "npu")
    reference_layout = _layout(path, merge, "bench") if has_reference else None
    if has_reference and (target_layout is None) != (reference_layout is None):
        missing = "npu" if target_layout is None else "bench"
        raise InvalidArgument(
            f'{path}: "parallel_merge": "{missing}": expected an object, as both runs are merged or none'
        )
    return Paths(
        target=read_path(path, content, "npu_path"),
        reference=read_path(path, content, "bench_path") if has_reference else None,
        merges=target_layout is not None,
        target_layout=target_layout,
        reference_layout=reference_layout,
    )


def _layout(path: str, merge: Mapping[str, Any], side: str) -> Layout | None:
    content = merge.get(side)
    if not content:
        return None
    place = f'{path}: "parallel_merge": "{side}"'
    if not isinstance(content, dict):
        raise InvalidArgument(f"{place}: expected an object, found {shown(content)}")
    for key in content:
        if key not in (*_SIZES, "order"):
            raise InvalidArgument(f'{place}: "{key[:60]}": there is no such key')
    sizes = {key: _size(place, content, key) for key in _SIZES}
    order = content.get("order", _ORDER)
    if not isinstance(order, str):
        raise InvalidArgument(f'{place}: "order": expected a text such as "{_ORDER}", found {shown(order)}')
    return Layout(**sizes, order=order).check(place)


def _size(place: str, content: Mapping[str, Any], key: str) -> int:
    if key not in content and key not in _OPTIONAL:
        raise InvalidArgument(f'{place}: "{key}": expected a whole number, found no such key')
    value = content.get(key, _OPTIONAL.get(key))
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 20:
        raise InvalidArgument(f'{place}: "{key}": expected a whole number from 1 on, found {shown(value)}')
    return value


def find_units(paths: Paths) -> Inputs:
    """The folders of all ranks. Those of two runs are paired by step and rank; with layouts by step.

    Raises InvalidArgument when a path is missing or the two are of different forms, and NothingToCompare when
    they have nothing in common.
    """
    target = folder_of(paths.target)
    reference = folder_of(paths.reference) if paths.reference is not None else None
    form = form_of(target)
    if reference is not None and (other := form_of(reference)) is not form:
        raise InvalidArgument(
            f"expected two paths of the same kind: {target} is {form.value}, {reference} is {other.value}"
        )
    search = _Search(is_merged=paths.merges)
    if form is Form.RANK:
        search.rank(0, 0, target, reference)  # as in mindstudio-probe, whatever the folder is called
    elif form is Form.STEP:
        search.step(0, target, reference)
    else:
        search.run(target, reference)
    if not search.units:
        reasons = "; ".join(lines(search.left_out))
        raise NothingToCompare(f"{paths.target} and {paths.reference} have nothing in common ({reasons})")
    return Inputs(search.units, search.left_out)


class _Search:
    def __init__(self, *, is_merged: bool) -> None:
        self.units: list[Unit] = []
        self.left_out: list[LeftOut] = []
        self._is_merged = is_merged

    def run(self, target: Path, reference: Path | None) -> None:
        for step, ours, theirs in self._paired(target, reference, STEP):
            self.step(step, ours, theirs)

    def step(self, step: int, target: Path, reference: Path | None) -> None:
        if self._is_merged:
            ours = sorted(numbered(target, RANK).items())
            theirs = sorted(numbered(reference, RANK).items()) if reference is not None else []
            self.units.append(Unit(step, ours, theirs))
            return
        for rank, our, their in self._paired(target, reference, RANK, step):
            self.rank(step, rank, our, their)

    def rank(self, step: int, rank: int, target: Path, reference: Path | None) -> None:
        self.units.append(Unit(step, [(rank, target)], [] if reference is None else [(rank, reference)]))

    def _paired(
        self, target: Path, reference: Path | None, pattern: re.Pattern[str], of_step: int | None = None
    ) -> list[tuple[int, Path, Path | None]]:
        """The folders of the same number, in the order of numbers; the others are noted."""
        ours = numbered(target, pattern)
        if reference is None:
            return [(number, ours[number], None) for number in sorted(ours)]
        theirs = numbered(reference, pattern)
        for number in sorted({*ours} ^ {*theirs}):
            place = (number, None) if pattern is STEP else (of_step, number)
            self.left_out.append(only_in("target" if number in ours else "reference", *place))
        return [(number, ours[number], theirs[number]) for number in sorted({*ours} & {*theirs})]
