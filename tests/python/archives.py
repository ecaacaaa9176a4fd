# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Golden files are kept in archives."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path


def unpack(
    archive: Path, folder: Path, wanted: Callable[[tarfile.TarInfo], bool] = lambda member: True
) -> list[Path]:
    """Unpacks the members that are wanted below ``folder``, and returns where they lie."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later; they warn without a filter
            tar.extraction_filter = tarfile.data_filter
        members = [member for member in tar.getmembers() if wanted(member)]
        tar.extractall(folder, members)
    return [folder / member.name for member in members]
