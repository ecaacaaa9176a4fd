# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The folders of a data dump: of a run, of a step, of a rank."""

from __future__ import annotations

import os
import re
from enum import Enum
from pathlib import Path

from msprobe.files.regular_file import PACKED_STEP, is_there, open_to_read
from msprobe.files.run_folder import dump_of
from msprobe.native import InvalidArgument

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DUMPS = ("dump.json", "debug.json")
RANK = re.compile(r"rank([0-9]{0,9})|proc[0-9]{1,9}")  # proc{pid}: not distributed, as `rank`
KERNEL_CONFIG = re.compile(r"kernel_config(_[0-9]+)?\.json")
STEP = re.compile(r"step([0-9]{1,9})")
_HEAD = 4096  # bytes


class Form(Enum):
    """What a path is."""

    FILE = "a dump.json or debug.json"
    RANK = "the folder of a rank, with dump.json or debug.json"
    STEP = "the folder of a step, with rank0, rank1, ..."
    RUN = "a dump_path, with step0, step1, ..."


def form_of(path: Path) -> Form:
    """Raises InvalidArgument that says what was expected."""
    if not is_there(path):
        raise InvalidArgument(f"{path} does not exist; expected a dump")
    if not path.is_dir():
        if path.name not in DUMPS:
            raise InvalidArgument(
                f"{path}: expected a file called dump.json or debug.json, or a folder with one"
            )
        return Form.FILE
    names = _names_in(path)
    if any(name in names for name in (*DUMPS, PACKED_STEP)):
        return Form.RANK
    if any(RANK.fullmatch(name) for name in names):
        return Form.STEP
    if any(STEP.fullmatch(name) for name in names):
        return Form.RUN
    if holds_kernel_dump(names):
        raise InvalidArgument(
            f"{path}: a kernel dump (level L2) in the format of the vendor: `msprobe parse cad -m FOLDER` "
            "makes arrays of a folder {time}/{device} in it, `msprobe parse vc` compares two"
        )
    raise InvalidArgument(
        f"{path}: expected dump.json or debug.json, or folders rank{{N}} or step{{N}} in it"
    )


def holds_kernel_dump(names: Iterable[str]) -> bool:
    """Whether these names are those in the folder of a step of a level-L2 dump of mindstudio-probe."""
    return any(KERNEL_CONFIG.fullmatch(name) for name in names)


def dump_file(path: Path, step: int | None = None, rank: int | None = None) -> Path:
    """The dump.json of a file, or of the folder of a rank, a step or a dump path, or of `msprobe run`; the
    first one, or what was asked for. Raises InvalidArgument.
    """
    path = dump_of(path)
    form = form_of(path)
    if form is Form.RUN:
        path = _chosen(path, numbered(path, STEP), "step", step)
        form = form_of(path)
    elif step is not None and form is Form.STEP and number_of(STEP, path) != step:
        raise InvalidArgument(f"{path}: expected a folder with steps, for step={step}")
    if form is Form.STEP:
        path = _chosen(path, numbered(path, RANK), "rank", rank)
    if path.is_dir():
        found = [path / name for name in DUMPS if is_there(path / name)]
        if not found:
            raise InvalidArgument(f"{path}: expected a file {' or '.join(DUMPS)} in it")
        return found[0]
    return path


def _chosen(folder: Path, found: dict[int, Path], noun: str, wanted: int | None) -> Path:
    if wanted is None:
        return found[min(found)]
    if wanted not in found:
        known = ", ".join(map(str, sorted(found)[:20]))
        raise InvalidArgument(f"{folder}: there is no {noun} {wanted}, expected one of {known}")
    return found[wanted]


def records_only_structure(folder: Path) -> bool:
    """Whether the dump in `folder` was made by task "structure". Looks at the head of the file, where all
    tools write the task.
    """
    try:
        with open_to_read(folder / "dump.json") as file:
            head = file.read(_HEAD)
    except OSError:
        return False  # who reads the file will say so
    return re.search(rb'"task"\s*:\s*"structure"', head) is not None


_SAID = {key: re.compile(rb'"%s"\s*:\s*"(\w+)"' % key.encode()) for key in ("framework", "level")}
_ADAPTER = {"mindtorch": "mindspore"}  # MSAdapter, whose dumps are of MindSpore


def framework_of(path: Path) -> str:
    """What the first dump.json of a file, rank, step, dump path or run says it was recorded of; empty: there
    is none, or it does not say.
    """
    said = _said(path, "framework")
    return _ADAPTER.get(said, said)


def level_of(path: Path) -> str:
    """At which level; else as framework_of()."""
    return _said(path, "level")


def _said(path: Path, key: str) -> str:
    try:
        dump = next((found for _, _, found in numbered_dumps(path)), path) if path.is_dir() else path
        with open_to_read(dump) as file:
            known = _SAID[key].search(file.read(_HEAD))
    except (OSError, InvalidArgument):
        return ""  # who reads it whole says why
    return known[1].decode() if known else ""


def numbered_dumps(path: Path) -> Iterator[tuple[int, int, Path]]:
    """Step, rank and dump.json of everything below a path, by number. Raises InvalidArgument."""
    path = dump_of(path)
    form = form_of(path)
    if form in (Form.FILE, Form.RANK):
        dump = path if form is Form.FILE else path / "dump.json"
        place = dump.resolve().parent
        found = {number_of(STEP, place.parent): {number_of(RANK, place): dump}}
    else:
        steps = numbered(path, STEP) if form is Form.RUN else {number_of(STEP, path.resolve()): path}
        found = {
            step: {rank: place / "dump.json" for rank, place in numbered(folder, RANK).items()}
            for step, folder in steps.items()
        }
    for step, ranks in sorted(found.items()):
        yield from ((step, rank, dump) for rank, dump in sorted(ranks.items()) if is_there(dump))


def folder_of(path: Path) -> Path:
    """The folder of a dump: that of a file, that in the folder of `msprobe run`, else `path` itself. Raises
    as form_of().
    """
    path = dump_of(path)
    return path.parent if form_of(path) is Form.FILE else path


def numbered(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    """The folders of ranks or steps by number; `rank` without one and `proc{pid}` are rank 0. What is
    called otherwise is passed by. Raises InvalidArgument for two of the same number, and when `folder`
    cannot be read.
    """
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


def number_of(pattern: re.Pattern[str], path: Path) -> int:
    """The number in the name of a folder; 0: it has another name, or none in it."""
    match = pattern.fullmatch(path.name)
    return int(match[1] or 0) if match else 0


def _names_in(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError as error:
        raise InvalidArgument(f"{folder}: cannot be read: {error.strerror}") from error
