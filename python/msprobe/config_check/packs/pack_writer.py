# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Writing a pack, from all processes of a run."""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import shutil
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.config_check.packs import pack, parts
from msprobe.files.atomic_file import make_directory
from msprobe.files.regular_file import descriptor_of, open_to_read, open_to_write
from msprobe.native import InvalidArgument, IoError, __version__, log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ENTRY_MODE = 0o600 << 16
_DATE = (1980, 1, 1, 0, 0, 0)
_PATIENCE = 60.0  # seconds for the other processes, each of which needs some milliseconds
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)


@dataclass(frozen=True)
class Run:
    """What the processes of one run have in common: entries of another run are not kept.

    number: counts the packs that this run wrote to the same path.
    """

    id: str
    number: int = 0


class PackWriter:
    """Appends entries to a pack. Each append makes a new file and renames it, so a killed process leaves the
    old file or the new one. Of several processes each has a part of its own (parts.py) until finish(); where
    their number is not known, they take turns.
    """

    def __init__(self, path: str | os.PathLike[str], run: Run, framework: str, *, processes: int = 1) -> None:
        """Raises InvalidArgument when something that is no pack has this name: it would be lost; and IoError
        when the folder cannot be made.
        """
        self.path = Path(path)
        self._run = run
        self._processes = processes
        self._part = parts.own_part(self.path, run.id, run.number) if processes > 1 else None
        self._about = {
            "format": pack.FORMAT,
            "version": __version__,
            "framework": framework,
            "run": run.id,
            "number": run.number,
        }
        self._written: os.stat_result | None = None  # the pack as this writer left it
        make_directory(self.path.parent)
        if self.path.exists() and not _is_pack(self.path):
            raise InvalidArgument(
                f"output zip path {self.path}: expected no file or an earlier pack, found a file that is "
                "none: it is left alone, choose another path"
            )

    def append(self, entries: Mapping[str, str]) -> None:
        """Adds entries; those of an earlier run go. Raises IoError."""
        if not entries:
            return
        if self._part is not None:
            self._append_to_part(self._part, entries)
            return
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with _turn(self.path):
                self._remove_leftovers()
                found = self._run_of_file()
                if found is not None and found.id == self._run.id and found.number > self._run.number:
                    return  # this run has begun the next pack
                with open_to_write(temporary) as file:
                    if found == self._run:
                        with open_to_read(self.path) as earlier:
                            shutil.copyfileobj(earlier, file)
                    else:
                        entries = {pack.ABOUT: json.dumps(self._about, indent=4), **entries}
                _add(temporary, entries)
                self._written = os.stat(temporary)
                os.replace(temporary, self.path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise self._cannot_write(error) from error

    def finish(self) -> None:
        """After the last append of this process: the last one of the run joins the parts. Raises IoError."""
        if self._part is None:
            return
        try:
            with contextlib.suppress(FileNotFoundError):  # nothing was appended since
                os.replace(self._part, parts.as_done(self._part))
                parts.join_at_end(self.path, self._run.id, self._run.number, self._processes)
        except OSError as error:
            raise self._cannot_write(error) from error

    def _append_to_part(self, part: Path, entries: Mapping[str, str]) -> None:
        temporary = part.with_name(f".{part.name}.tmp")
        try:
            if not part.exists():
                make_directory(part.parent)
                if self._is_late():
                    return
                entries = {pack.ABOUT: json.dumps(self._about, indent=4), **entries}
            with (
                open_to_write(temporary) as file,
                contextlib.suppress(FileNotFoundError),
                open_to_read(part) as earlier,
            ):
                shutil.copyfileobj(earlier, file)
            _add(temporary, entries)
            os.replace(temporary, part)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise self._cannot_write(error) from error

    def _is_late(self) -> bool:
        """Whether this run has begun the next pack. Parts of earlier runs go."""
        for other in parts.parts_of(self.path):
            if not parts.is_of(other, self._run.id) or other.number < self._run.number:
                other.path.unlink(missing_ok=True)
            elif other.number > self._run.number:
                return True
        return False

    def _cannot_write(self, error: OSError) -> IoError:
        result = IoError(f"cannot write {self.path}: {error.strerror or error}")
        result.errno, result.filename = error.errno, str(self.path)
        return result

    def _run_of_file(self) -> Run | None:
        """Of the pack that is there; None where there is none, or one of another tool."""
        if self._written is not None and _is_unchanged(self.path, self._written):
            return self._run
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            with open_to_read(self.path) as file, zipfile.ZipFile(file) as archive:
                about = json.loads(archive.read(pack.ABOUT))
            return Run(str(about["run"]), int(about["number"]))
        return None

    def _remove_leftovers(self) -> None:
        """Of processes that were killed: nobody else writes now."""
        for path in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):
            path.unlink(missing_ok=True)


def _is_unchanged(path: Path, known: os.stat_result) -> bool:
    try:
        now = os.stat(path)
    except OSError:
        return False
    same_place = os.path.samestat(now, known)
    return same_place and (now.st_mtime_ns, now.st_size) == (known.st_mtime_ns, known.st_size)


def _add(path: Path, entries: Mapping[str, str]) -> None:
    mode = "a" if path.stat().st_size else "w"
    descriptor = descriptor_of(path, os.O_RDWR)
    with open(descriptor, "r+b") as file, zipfile.ZipFile(file, mode) as archive:  # type: ignore[call-overload]
        there = set(archive.namelist())
        for name, text in entries.items():
            if name in there:
                continue
            info = zipfile.ZipInfo(name, _DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = _ENTRY_MODE
            archive.writestr(info, text.encode("utf-8", "backslashreplace"))


def _is_pack(path: Path) -> bool:
    try:
        with open_to_read(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError):
        return False
    return all(pack.place(name) for name in names)


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Waits until no other process is at `path`. Where the file system has no locks there is no order, and
    of two that write at the same moment one loses its entries.
    """
    import fcntl

    lock = path.with_name(f".{path.name}.lock")
    deadline = time.monotonic() + _PATIENCE
    while True:
        descriptor = descriptor_of(lock, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same(descriptor, lock):
                break
        except OSError as error:
            if error.errno in _NO_LOCKS:
                log.debug("%s: the file system has no locks", lock)
                break
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                os.close(descriptor)
                raise
        os.close(descriptor)
        if time.monotonic() > deadline:
            raise OSError(errno.ETIMEDOUT, f"another process holds {lock} for {_PATIENCE:.0f} s")
        time.sleep(0.005)
    try:
        yield
    finally:
        # Removed while it is held: whoever waits for the old file sees that it is another one.
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
