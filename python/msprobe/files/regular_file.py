# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The one place where files are opened: regular ones alone, and none that is too large to be read at once.

A pipe would keep its reader waiting for ever, and a device may have no end. What these raise is an OSError,
with a reason in words like any other.
"""

from __future__ import annotations

import errno
import io
import os
import stat

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

FILE_MODE = 0o640
LARGEST = 256 << 20
"""Bytes that are read at once; what may be larger is read piece by piece, or by the native library."""
PACKED_STEP = "step.zip"
"""In the folder of a step and rank: the files that would else lie beside it, read by their own paths."""

_READ = os.O_RDONLY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_REPLACE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def descriptor_of(path: str | os.PathLike[str], flags: int, mode: int = FILE_MODE) -> int:
    """As os.open(). Raises OSError also for what is no regular file."""
    descriptor = os.open(
        path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode
    )  # a pipe is opened without a writer, too
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def open_to_read(path: str | os.PathLike[str]) -> BinaryIO:
    try:
        return open(descriptor_of(path, _READ), "rb")
    except FileNotFoundError:
        content = _packed(path)
        if content is None:
            raise
    return io.BytesIO(content)


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file or folder of this path, in its place or in a packed step."""
    if os.path.exists(path):
        return True
    if not _is_beside_archive(path):
        return False
    from msprobe.native import core  # only where something is packed

    return core.is_there(path)


def _packed(path: str | os.PathLike[str]) -> bytes | None:
    if not _is_beside_archive(path):
        return None
    from msprobe.native import Error, core  # only where something is packed

    try:
        return core.read_packed(path)
    except Error as error:
        raise OSError(errno.EINVAL, str(error), os.fspath(path)) from error


def _is_beside_archive(path: str | os.PathLike[str]) -> bool:
    return os.path.isfile(os.path.join(os.path.dirname(path), PACKED_STEP))


def open_to_write(path: str | os.PathLike[str], *, is_new: bool = False, mode: int = FILE_MODE) -> BinaryIO:
    """An empty file. is_new: one that is there already is an error."""
    return open(descriptor_of(path, _NEW if is_new else _REPLACE, mode), "wb")


def open_text(path: str | os.PathLike[str], *, encoding: str = "utf-8", errors: str = "replace") -> TextIO:
    """To be read."""
    return io.TextIOWrapper(open_to_read(path), encoding=encoding, errors=errors)


def read_bytes(path: str | os.PathLike[str], most: int = LARGEST) -> bytes:
    with open_to_read(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most} bytes", os.fspath(path))
    return content


def read_text(
    path: str | os.PathLike[str], most: int = LARGEST, *, encoding: str = "utf-8", errors: str = "strict"
) -> str:
    return read_bytes(path, most).decode(encoding, errors)
