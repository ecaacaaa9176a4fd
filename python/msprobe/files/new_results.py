# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One rule for results that exist already: they are never written over, unless it is asked for."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

from msprobe.files.atomic_file import make_directory
from msprobe.native import InvalidArgument, IoError

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# In the words of Python; the command line says --force (see cli.py).
_HOW = "choose another name, or replace what is there with force=True"
_EARLIER = ".msprobe_earlier_"


@contextmanager
def new_results(
    folder: Path, patterns: Sequence[str], *, force: bool = False, log: str | None = None
) -> Iterator[None]:
    """Stands around a block that writes results into `folder`. All of their names match `patterns`, of which
    the first is that of the file that is written last.

    Raises InvalidArgument where there are results already. With `force` they are replaced: they come back
    when the block fails. A block that fails (also by Ctrl-C) leaves none of its own files, but `log`, a file
    that is written line by line: it is worth something by itself. Other files in the folder stay.
    """
    found = _matching(folder, patterns)
    if found and log is not None:  # of a block that failed it is no result
        found = [*found, *_matching(folder, (log,))]
    if found:
        _refuse(folder, found, is_whole=(folder / patterns[0]).exists(), force=force)
    is_new = not folder.exists()
    aside = _set_aside(folder, found) if found else None
    try:
        yield
    except BaseException:
        with suppress(OSError):
            _remove(_matching(folder, patterns))
            if aside is not None and log is not None:
                _remove(_matching(folder, (log,)))
            if aside is not None:
                _put_back(folder, aside)
            if is_new:
                _remove_empty(folder)
        raise
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)


def check_new_file(file: Path, *, force: bool = False, makes_folder: bool = False) -> None:
    """As new_results(), for a result that is one file, which is written as a whole anyway. makes_folder: who
    writes it makes its folder.
    """
    has_folder = file.parent.is_dir() or (makes_folder and not file.parent.exists())
    if file.is_dir() or not has_folder:
        reason = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise InvalidArgument(f"{file}: expected the name of a file to write: {reason}")
    if os.path.lexists(file) and not force:
        raise InvalidArgument(
            f"{file}: there is such a file; choose another name, or replace it with force=True"
        )


def _matching(folder: Path, patterns: Sequence[str]) -> list[Path]:
    return sorted({path for pattern in patterns for path in folder.glob(pattern)})


def _refuse(folder: Path, found: list[Path], *, is_whole: bool, force: bool) -> None:
    names = ", ".join(path.relative_to(folder).as_posix() for path in found[:3])
    if not force:
        raise InvalidArgument(f"{folder}: there are results already ({names}); {_HOW}")
    directories = [path for path in found if path.is_dir()]
    if directories and not is_whole:  # perhaps something of the user that is called so
        raise InvalidArgument(
            f"{folder}: {directories[0].name} may be no earlier result, and is not replaced; choose another "
            "folder"
        )


def _set_aside(folder: Path, found: list[Path]) -> Path:
    try:
        aside = Path(tempfile.mkdtemp(prefix=_EARLIER, dir=folder))
        for path in found:
            place = aside / path.relative_to(folder)
            make_directory(place.parent)
            path.rename(place)
    except OSError as error:
        raise IoError(f"{folder}: the earlier results cannot be replaced: {error.strerror}") from error
    return aside


def _put_back(folder: Path, aside: Path) -> None:
    for path in sorted(aside.rglob("*")):
        place = folder / path.relative_to(aside)
        if path.is_dir() and place.is_dir():
            continue
        if path.exists():
            path.rename(place)
    shutil.rmtree(aside, ignore_errors=True)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    """The folder and those in it, where nothing is left in them."""
    for path in sorted((one for one in folder.rglob("*") if one.is_dir()), reverse=True):
        with suppress(OSError):
            path.rmdir()
    with suppress(OSError):
        folder.rmdir()
