# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient records of MindSpore under the names that the parameters have in PyTorch."""

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
    from collections.abc import Iterator
    from pathlib import Path

_ENDINGS = (".npy", ".pt")


def as_pytorch(ours: Path, theirs: Path, folder: Path) -> Path:
    """Writes the record of MindSpore below `folder`, tensors as links; gives where. theirs: of PyTorch."""
    ours, theirs = (_as_files(record, folder / name) for record, name in ((ours, "own"), (theirs, "others")))
    wanted = {name for table in _tables(theirs) for name in _names(table)}
    for table in _tables(ours):
        rank = folder / table.parent.name
        make_directory(rank)
        rows = cells_of(read_text(table), table)
        renamed = [rows[0], *([_name(row[0], wanted), *row[1:]] for row in rows[1:] if row)] if rows else []
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(renamed)
        write_text(rank / table.name, text.getvalue())
    for file in ours.glob("rank*/step*/*"):
        if file.suffix in _ENDINGS:
            place = folder / file.parent.parent.name / file.parent.name
            make_directory(place)
            link = place / f"{_name(file.name[: -len(file.suffix)], wanted)}{file.suffix}"
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
