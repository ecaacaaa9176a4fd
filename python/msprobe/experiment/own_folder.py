# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A working directory of its own for each run, in which everything of the user's is found and nothing of it
is changed: what a script writes under a relative name stays with the run.

Folders are made anew, files are links, and a link becomes a copy before it is written.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from msprobe.experiment.plan import FILE
from msprobe.files.atomic_file import make_directory
from msprobe.native import IoError

_MOST_ENTRIES = 20_000
_LINKED_WHOLE = (".git", ".venv", "venv", "node_modules", "__pycache__", ".cache", "site-packages")


def mirrored(folder: Path, place: Path, without: Path) -> Path:
    """Makes a folder below `place` that looks as `folder` does, also on the way up (`../data`). Returns it;
    fine where it is there already.

    without: is left out, with what is in it: the results of the experiment. Raises IoError.
    """
    folder, without = folder.resolve(), without.resolve()
    mirror = make_directory(place)
    try:
        for parent in [*reversed(folder.parents), folder]:
            if parent != Path(parent.anchor):
                mirror = make_directory(mirror / parent.name)
            left_out = {_entry_towards(folder, parent), _entry_towards(without, parent)}
            if parent != folder:
                _link_entries(parent, mirror, left_out)
        _copy_folders(folder, mirror, without, _MOST_ENTRIES)
    except OSError as error:
        raise IoError(f"{mirror}: cannot be made to look as {folder}: {error.strerror}") from error
    return mirror


def _entry_towards(path: Path, parent: Path) -> str:
    """The entry of `parent` that is `path` or leads to it; "" where none is."""
    return path.relative_to(parent).parts[0] if path != parent and path.is_relative_to(parent) else ""


def _link_entries(source: Path, mirror: Path, left_out: set[str]) -> None:
    for name in _names(source):
        if name not in left_out and not os.path.lexists(mirror / name):
            os.symlink(source / name, mirror / name)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except PermissionError:  # it is passed through, but not looked into
        return []


def _copy_folders(source: Path, mirror: Path, without: Path, left: int) -> int:
    """Folders anew, files as links; a folder beyond the limit is a link. Returns what is left of it."""
    for name in _names(source):
        path, place = source / name, mirror / name
        if path == without:
            continue
        left -= 1
        is_own = path.is_dir() and not path.is_symlink() and name not in _LINKED_WHOLE and left > 0
        is_own = is_own and not (path / FILE).exists()  # a run of an earlier experiment
        if is_own or without.is_relative_to(path):
            left = _copy_folders(path, make_directory(place), without, left)
        elif not os.path.lexists(place):
            os.symlink(path, place)
    return left


def copy_before_writing(folder: str) -> Any:
    """An audit hook (sys.addaudithook): a file below `folder` that is a link, and is opened to be written,
    becomes a copy first.
    """
    inside = os.path.abspath(folder) + os.sep

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("sqlite3.connect", "os.truncate"):
            own_copy(arguments[0], inside)
        if event != "open":
            return
        path, mode, flags = arguments
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        if writes or (isinstance(mode, str) and set(mode) & set("wax+")):
            own_copy(path, inside)

    return hook


def own_copy(path: Any, inside: str) -> None:
    """Of a link below `inside`. Does nothing for other paths; never raises."""
    if not isinstance(path, (str, os.PathLike)):
        return
    try:
        place = os.path.abspath(os.fspath(path))
        if isinstance(place, str) and place.startswith(inside) and os.path.islink(place):
            source = os.path.realpath(place)
            if os.path.isfile(source):
                os.unlink(place)
                shutil.copyfile(source, place)
    except (OSError, ValueError):
        return
