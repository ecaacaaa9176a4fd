# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""vc of converted kernel dumps: two trees of .npy files, compared into one csv."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory
from msprobe.native import InvalidArgument, core, log

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST = 5
_COLUMNS = [
    "NPU File Name", "Bench File Name", "Mean", "Bench Mean", "Md5 Consistency", "Max Abs Error",
    "Max Relative Error",
]  # fmt: skip


def holds_only_npy(folder: str) -> bool:
    """Whether a folder has .npy files below it, and no other ones."""
    files = [name for _, _, names in os.walk(folder) for name in names]
    return bool(files) and all(name.endswith(".npy") for name in files)


def compare_converted(mine: str, reference: str, output: str) -> Path:
    """Pairs folders of operators by their names, what is below by its order: names of files have the times of
    their runs. Returns the csv. Raises InvalidArgument where the trees have other forms.
    """
    if os.path.samefile(mine, reference):
        raise InvalidArgument(f"-m and -g: expected two folders, found {mine} twice")
    pairs = list(_pairs(Path(mine), Path(reference), depth=0))
    folder = make_directory(output)
    path = folder / f"batch_compare_{_unused_second(folder)}.csv"
    with core.SheetWriter(path) as table:
        table.begin_sheet("result", _COLUMNS)
        for ours, theirs in pairs:
            row = _row(ours, theirs)
            if row is not None:
                table.add_row(row)
    return path


def _pairs(mine: Path, reference: Path, depth: int) -> Iterator[tuple[Path, Path]]:
    if depth > _DEEPEST:
        raise InvalidArgument(f"{mine}: expected at most {_DEEPEST} levels of folders")
    folders, files = zip(*(_entries(folder) for folder in (mine, reference)))
    for kind, (ours, theirs) in (("folders", folders), ("files", files)):
        if len(ours) != len(theirs):
            raise InvalidArgument(
                f"{mine} and {reference}: expected as many {kind}, found {len(ours)} and {len(theirs)}"
            )
    for ours, theirs in zip(*folders):
        if depth == 0 and ours.name != theirs.name:
            raise InvalidArgument(
                f"{mine} and {reference}: expected the same operators, found {ours.name} and {theirs.name}"
            )
        yield from _pairs(ours, theirs, depth + 1)
    yield from zip(*files)


def _entries(folder: Path) -> tuple[list[Path], list[Path]]:
    entries = sorted(folder.iterdir())
    return [one for one in entries if one.is_dir()], [one for one in entries if one.is_file()]


def _row(ours: Path, theirs: Path) -> list[Any] | None:
    """The cells are NumPy's, in the arithmetic of the arrays. None: they cannot be compared."""
    import numpy as np

    a, b = (np.asarray(core.open_tensor(path)) for path in (ours, theirs))
    if a.shape != b.shape or a.dtype != b.dtype:
        log.error(
            "%s and %s: expected one shape and dtype, found %s %s and %s %s: they are left out", ours, theirs,
            a.shape, a.dtype, b.shape, b.dtype,
        )  # fmt: skip
        return None
    if a.size == 0:
        log.error("%s: the array is empty: it is left out", ours)
        return None
    if a.dtype == bool:
        a, b = a.astype(np.int8), b.astype(np.int8)
    same = zlib.crc32(a.tobytes()) == zlib.crc32(b.tobytes())
    with np.errstate(all="ignore"):
        error = np.abs(a - b)
        base = b if b.dtype.kind in "fc" else b.astype(float)
        base = np.where(base == 0, np.finfo(base.dtype).eps, base)
        cells = [np.mean(a), np.mean(b), same, error.max(), np.max(np.abs(error / base))]
    return [ours.name, theirs.name, *map(str, cells)]


def _unused_second(folder: Path) -> int:
    second = int(time.time())
    while (folder / f"batch_compare_{second}.csv").exists():
        second += 1
    return second
