# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The checkpoint that a run left in its working directory, whatever library wrote it."""

from __future__ import annotations

import contextlib
import os
import zipfile
from pathlib import Path

from msprobe.files.regular_file import open_to_read
from msprobe.native import Error

_DISTRIBUTED = ".distcp"  # of torch.distributed.checkpoint: one for each process, in a folder of their own
_PICKLED = b"\x80\x02\x8a\x0a"  # how torch.save began a file before it wrote archives: protocol 2, a long


def last_saved(folder: Path) -> Path | None:
    """The newest file of torch.save or of safetensors below `folder`, or the newest folder of
    torch.distributed.checkpoint. Links lead to what was there before the run, and are left out.
    """
    found = [
        path
        for place, _, names in os.walk(folder)
        for path in (Path(place, name) for name in names)
        if not path.is_symlink() and path.is_file() and _is_saved(path)
    ]
    newest = max(found, key=lambda path: path.stat().st_mtime_ns, default=None)
    return newest.parent if newest is not None and newest.suffix == _DISTRIBUTED else newest


def _is_saved(path: Path) -> bool:
    if path.suffix in (_DISTRIBUTED, ".safetensors"):
        return True
    with contextlib.suppress(OSError, Error, zipfile.BadZipFile, ValueError), open_to_read(path) as file:
        head = file.read(4)
        if head[:2] == b"PK":
            return any(name.endswith("/data.pkl") for name in zipfile.ZipFile(file).namelist())
        return head == _PICKLED
    return False
