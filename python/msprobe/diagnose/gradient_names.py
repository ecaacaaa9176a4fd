# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient records under other names: of MindSpore under those that the parameters have in PyTorch, of a
reference under those of a target that was refactored.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from msprobe.compare.framework_names import parameter_in_pytorch
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.csv_cells import cells_of
from msprobe.files.regular_file import read_text
from msprobe.files.run_folder import PACKED_GRADIENTS
from msprobe.native import core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_ENDINGS = (".npy", ".pt")


def as_pytorch(ours: Path, theirs: Path, folder: Path) -> Path:
    """Writes the record of MindSpore below `folder`, tensors as links; gives where. theirs: of PyTorch."""
    theirs = _as_files(theirs, folder / "others")
    wanted = {name for table in _tables(theirs) for name in _names(table)}
    return renamed(ours, folder, lambda name: _name(name, wanted))


def renamed(record: Path, folder: Path, name_of: Callable[[str], str]) -> Path:
    """Writes a record of gradients with other names of its parameters below `folder`, tensors as links; gives
    where.
    """
    record = _as_files(record, folder / "own")
    for table in _tables(record):
        rank = folder / table.parent.name
        make_directory(rank)
        rows = cells_of(read_text(table), table)
        named = [rows[0], *([name_of(row[0]), *row[1:]] for row in rows[1:] if row)] if rows else []
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(named)
        write_text(rank / table.name, text.getvalue())
    for file in record.glob("rank*/step*/*"):
        if file.suffix in _ENDINGS:
            place = folder / file.parent.parent.name / file.parent.name
            make_directory(place)
            link = place / f"{name_of(file.name[: -len(file.suffix)])}{file.suffix}"
            if not link.is_symlink():
                link.symlink_to(file.resolve())
    return folder


def _as_files(record: Path, folder: Path) -> Path:
    """A record with a csv for each step: itself, or what is made of a packed one below `folder`."""
    for packed in record.glob(f"rank*/{PACKED_GRADIENTS}"):
        rank = packed.parent.name.removeprefix("rank")
        if rank.isdecimal():
            core.convert_gradients(packed.parent, folder, int(rank), "npy")
    return folder if folder.exists() else record


def _tables(record: Path) -> Iterator[Path]:
    yield from sorted(record.glob("rank*/grad_summary_*.csv"))


def _names(table: Path) -> list[str]:
    return [row[0] for row in cells_of(read_text(table), table) if row][1:]


def _name(name: str, wanted: set[str]) -> str:
    """The name itself, where the other record has it; else what PyTorch's layers call it."""
    path, _, last = name.rpartition(".")
    other = f"{path}.{parameter_in_pytorch(last)}" if path else parameter_in_pytorch(last)
    return other if name not in wanted and other in wanted else name
