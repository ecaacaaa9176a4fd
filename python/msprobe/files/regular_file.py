# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The one place where files are opened: regular ones alone, and none that is too large to be read at once.

A pipe would keep its reader waiting for ever, and a device may have no end. What these raise is an OSError,
with a reason in words like any other.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

FILE_MODE = 0o640
LARGEST = 256 << 20
"""Bytes that are read at once; what may be larger is read piece by piece, or by the native library."""

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
    return open(descriptor_of(path, _READ), "rb")


def open_to_write(path: str | os.PathLike[str], *, is_new: bool = False, mode: int = FILE_MODE) -> BinaryIO:
    """An empty file. is_new: one that is there already is an error."""
    return open(descriptor_of(path, _NEW if is_new else _REPLACE, mode), "wb")


def open_text(path: str | os.PathLike[str], *, encoding: str = "utf-8", errors: str = "replace") -> TextIO:
    """To be read."""
    return open(descriptor_of(path, _READ), encoding=encoding, errors=errors)


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
