# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files that grow by whole lines: what a full disk or a kill cut off is taken back first."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from typing import TYPE_CHECKING

from msprobe.files.regular_file import descriptor_of
from msprobe.native import IoError

if TYPE_CHECKING:
    from pathlib import Path

_TAIL = 1 << 16
_PATIENCE = 60.0  # seconds for the other processes, each of which needs some milliseconds


def append_lines(path: Path, text: str, header: str = "") -> None:
    """Appends `text`, which ends with a line end, in one go; a new file begins with `header`.

    Where not all of it can be written, none of it stays. Half a line at the end of the file, left by a killed
    process, is removed first. Raises IoError.
    """
    try:
        descriptor = _open(path)
        try:
            _append(descriptor, text, header)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _cannot_write(path, error) from error


def append_in_turn(path: Path, text: str, header: str) -> None:
    """The same, where several processes append to one file. Raises IoError also where the file system has no
    locks.
    """
    deadline = time.monotonic() + _PATIENCE
    try:
        descriptor = _open(path)
        try:
            while not _is_locked_by_us(descriptor):
                if time.monotonic() > deadline:
                    raise OSError(errno.ETIMEDOUT, f"another process has it for {_PATIENCE:.0f} s")
                time.sleep(0.005)
            _append(descriptor, text, header)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _cannot_write(path, error) from error


class LineFile:
    """The same for a file of one writer, which may be given another name while it is written."""

    def __init__(self, path: Path, header: str = "") -> None:
        """Raises IoError, also where a process that runs is its writer."""
        self._path = path
        self._header = header
        self._descriptor = -1
        self._open()

    def append(self, text: str) -> None:
        """Raises IoError."""
        try:
            if self._descriptor < 0 or os.fstat(self._descriptor).st_nlink == 0:  # somebody has removed it
                self.close()
                self._open()
            _append(self._descriptor, text, self._header)
        except OSError as error:
            raise _cannot_write(self._path, error) from error

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _open(self) -> None:
        try:
            self._descriptor = _open(self._path)
        except OSError as error:
            raise _cannot_write(self._path, error) from error
        if has_other_writer(self._descriptor):
            self.close()
            raise IoError(f"cannot write {self._path}: another process writes it")


def has_other_writer(descriptor: int) -> bool:
    """Whether another process has it as a LineFile; otherwise this one has, for as long as it keeps a
    descriptor. Children of it have not.
    """
    try:
        return not _is_locked_by_us(descriptor)
    except OSError:  # this file system has no locks
        return False


def _is_locked_by_us(descriptor: int) -> bool:
    """Does not wait. Raises OSError where the file system has no locks."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _open(path: Path) -> int:
    return descriptor_of(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)


def _append(descriptor: int, text: str, header: str) -> None:
    size = _whole_size(descriptor)
    data = (header + text if size == 0 else text).encode("utf-8", "backslashreplace")
    _write(descriptor, data, size)


def _cannot_write(path: Path, error: OSError) -> IoError:
    result = IoError(f"cannot write {path}: {error.strerror}")
    result.errno, result.filename = error.errno, str(path)
    return result


def _whole_size(descriptor: int) -> int:
    """The size up to the last line end; what is behind it goes."""
    size = os.fstat(descriptor).st_size
    if size == 0:
        return 0
    at = max(0, size - _TAIL)
    tail = os.pread(descriptor, _TAIL, at)
    if tail.endswith(b"\n"):
        return size
    size = at + tail.rfind(b"\n") + 1
    os.ftruncate(descriptor, size)
    return size


def _write(descriptor: int, data: bytes, size: int) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise
