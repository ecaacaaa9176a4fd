# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tables that grow row by row while something runs: whoever ends it leaves whole rows."""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import os
from typing import TYPE_CHECKING

from msprobe.files.csv_cells import guarded
from msprobe.files.regular_file import descriptor_of
from msprobe.native import IoError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """In the form of Python's csv module: CRLF line ends, quotes where they are needed,
    and formulas guarded.
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows([guarded(cell) for cell in row] for row in rows)
    return out.getvalue()


def append_rows(path: Path, rows: Iterable[Sequence[str]], header: Sequence[str] | None = None) -> None:
    """Appends to a file that exists, in one write and under a lock: rows of several processes stay whole, and
    a full disk leaves no half one. With a header the file is made if needed, and begins with it. Raises
    IoError.
    """
    data = csv_text(rows).encode("utf-8", "backslashreplace")
    try:
        descriptor = descriptor_of(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if header else 0))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            end = os.fstat(descriptor).st_size
            if header and end == 0:
                data = csv_text([header]).encode("utf-8", "backslashreplace") + data
            if os.write(descriptor, data) != len(data):
                os.ftruncate(descriptor, end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)
    except OSError as error:
        result = IoError(f"cannot write {path}: {os.strerror(error.errno or 0)}")
        result.errno, result.filename = error.errno, str(path)
        raise result from error
