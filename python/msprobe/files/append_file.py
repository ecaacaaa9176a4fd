# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files that grow by whole lines: what a full disk or a kill cut off is taken back first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msprobe.native import IoError

if TYPE_CHECKING:
    from pathlib import Path

_FILE_MODE = 0o640
_TAIL = 1 << 16


def append_lines(path: Path, text: str, header: str = "") -> None:
    """Appends `text`, which ends with a line end, in one go; a new file begins with `header`.

    Where not all of it can be written, none of it stays. Half a line at the end of the file, left by a killed
    process, is removed first. Raises IoError.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _FILE_MODE)
        try:
            size = _whole_size(descriptor)
            data = (header + text if size == 0 else text).encode("utf-8", "backslashreplace")
            _write(descriptor, data, size)
        finally:
            os.close(descriptor)
    except OSError as error:
        result = IoError(f"cannot write {path}: {error.strerror}")
        result.errno, result.filename = error.errno, str(path)
        raise result from error


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
