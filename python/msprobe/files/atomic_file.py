# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are complete or absent: written under a temporary name, then renamed."""

from __future__ import annotations

import errno
import io
import os
from contextlib import contextmanager
from pathlib import Path

from msprobe.files.regular_file import open_to_write
from msprobe.native import IoError

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

_DIRECTORY_MODE = 0o750


def make_directory(path: str | os.PathLike[str]) -> Path:
    """Creates `path` and its parents; fine when it is there. Raises IoError."""
    directory = Path(path)
    try:
        # Not with parents=True: those would have another mode.
        for one in [*reversed(directory.parents), directory]:
            if not one.is_dir():
                one.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
    except OSError as error:
        if isinstance(error, FileExistsError):  # a file of this name
            error.errno = errno.ENOTDIR
        raise _io_error("cannot create the directory", directory, error) from error
    return directory


def write_text(path: Path, text: str) -> None:
    """Replaces `path` by `text` in UTF-8. A killed process leaves the old file or the new one. Raises
    IoError.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open_to_write(temporary) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _io_error("cannot write", path, error) from error


@contextmanager
def text_writer(path: Path) -> Iterator[IO[str]]:
    """As write_text(), for a text that is written piece by piece. What the block raises leaves nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with io.TextIOWrapper(open_to_write(temporary), encoding="utf-8") as file:
            yield file
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _io_error("cannot write", path, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _io_error(doing: str, path: Path, error: OSError) -> IoError:
    """As the native library makes them."""
    result = IoError(f"{doing} {path}: {os.strerror(error.errno or 0)}")
    result.errno, result.filename = error.errno, str(path)
    return result
