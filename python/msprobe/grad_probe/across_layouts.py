# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient records of runs that are laid out over their ranks in other ways, each put together as that of one
process: signs of shards side by side, those of copies once (docs/layouts.md).
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import shutil
from typing import TYPE_CHECKING

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.dump_folders import RANK, STEP, numbered
from msprobe.files.regular_file import read_text
from msprobe.grad_probe.probe import NOTES
from msprobe.layout.unsharding import wholes_of
from msprobe.native import Error, FormatError, core

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.layout.unsharding import Array

    Wholes = tuple[Array, Array]
    Row = dict[str, str]
    Rows = dict[str, Row]
    """Of one step of a rank, by the name of the parameter."""
    Reasons = dict[str, tuple[int, str]]
    """Why a parameter is not compared, by its name: the step where that began, and words."""

FOLDER = "joined"
_HEADER = ("param_name", "max", "min", "norm", "shape")
_CSV = "grad_summary_{}.csv"


def as_logical_records(
    reference: Path, target: Path, output: Path, offset: int
) -> tuple[tuple[Path, Path], Reasons] | None:
    """The records as those of one process each, below `output`, and what is in neither of them. None: ranks
    of the same number hold the same parts, or no step is in both, or a rank cannot be read: its own
    comparison says so. offset: as that of compare_ranks(). Raises IoError.
    """
    if not _may_differ(reference, target):
        return None
    parts = [output / FOLDER / f"parts_{side}" for side in ("reference", "target")]
    wholes = output / FOLDER / "reference", output / FOLDER / "target"
    left_out: Reasons = {}
    try:
        steps = [_exported(*one) for one in zip((reference, target), parts)]
        common = [step for step in steps[1] if step + offset in steps[0]]
        if not common or not _differ(_of_rank(parts[0], common[0] + offset), _of_rank(parts[1], common[0])):
            return None
        for step in common:
            for name, reason in _put_together(parts, wholes, (step + offset, step)).items():
                left_out.setdefault(name, (step + offset, reason))
    except FormatError:
        shutil.rmtree(output / FOLDER, ignore_errors=True)
        return None
    finally:
        for folder in parts:
            shutil.rmtree(folder, ignore_errors=True)
    return wholes, left_out


def _may_differ(*records: Path) -> bool:
    """By the number of ranks, and by what the first one says of its shards."""
    ranks = [numbered(record, RANK) for record in records]
    if not all(ranks):
        return False
    said = []
    for found in ranks:
        try:
            said.append(read_text(found[min(found)] / NOTES))
        except (OSError, ValueError):
            said.append("")
    return len(ranks[0]) != len(ranks[1]) or said[0] != said[1]


def _exported(record: Path, folder: Path) -> list[int]:
    """All ranks as single files; the steps that all of them have."""
    steps: list[set[int]] = []
    for rank, path in sorted(numbered(record, RANK).items()):
        # What a rank has no signs of is said once for all steps, by what is compared of the wholes.
        core.convert_gradients(path, folder, rank, "npy", tells=False)
        steps.append(set(numbered(folder / f"rank{rank}", STEP)))
    return sorted(set.intersection(*steps))


def _of_rank(folder: Path, step: int, rank: int | None = None) -> Rows:
    ranks = numbered(folder, RANK)
    path = ranks[min(ranks) if rank is None else rank] / _CSV.format(step)
    rows = list(csv.reader(read_text(path).lstrip("\ufeff").splitlines()))
    return {row[0]: dict(zip(rows[0], row)) for row in rows[1:] if row}


def _differ(ours: Rows, theirs: Rows) -> bool:
    return ours.keys() != theirs.keys() or any(
        row["shape"] != theirs[name]["shape"] for name, row in ours.items()
    )


def _put_together(parts: list[Path], wholes: tuple[Path, Path], steps: tuple[int, int]) -> dict[str, str]:
    """One step of both runs. What is not there, by name, and why."""
    import numpy as np

    found = [
        {rank: _of_rank(folder, step, rank) for rank in sorted(numbered(folder, RANK))}
        for folder, step in zip(parts, steps)
    ]
    tables: tuple[list[Row], list[Row]] = ([], [])
    names = [dict.fromkeys(name for rows in side.values() for name in rows) for side in found]
    left_out = {name: "only run 1 has a parameter of this name" for name in names[0]}
    left_out |= {name: "only run 2 has a parameter of this name" for name in names[1]}
    for name in (one for one in names[0] if one in names[1]):
        file = name.replace("%", "%25").replace("/", "%2F") + ".npy"
        paths = [
            [folder / f"rank{rank}" / f"step{step}" / file for rank, rows in side.items() if name in rows]
            for folder, step, side in zip(parts, steps, found)
        ]
        rows = [[rows[name] for rows in side.values() if name in rows] for side in found]
        whole = _first_whole(*paths)
        if whole is None:
            left_out[name] = "what its ranks have is no whole of the other run: summands, or another layer"
            continue
        del left_out[name]
        for table, folder, step, own_rows, content in zip(tables, wholes, steps, rows, whole):
            np.save(make_directory(folder / "rank0" / f"step{step}") / file, content, allow_pickle=False)
            table.append(_row(own_rows, content.shape))
    for table, folder, step in zip(tables, wholes, steps):
        text = io.StringIO()
        writer = csv.DictWriter(text, _HEADER, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(table)
        write_text(make_directory(folder / "rank0") / _CSV.format(step), text.getvalue())
    return left_out


def _first_whole(ours: list[Path], theirs: list[Path]) -> Wholes | None:
    """Equal signs are copies, but where shards are equal by chance."""
    try:
        distinct = _distinct(ours), _distinct(theirs)
        for pair in (distinct, (distinct[0], theirs), (ours, distinct[1]), (ours, theirs)):
            found = wholes_of(*pair)
            if found is not None:
                return found[:2]
    except Error:
        # Damaged, of a form that is not read, or not there, as of ranks that kept one for all of them.
        pass
    return None


def _distinct(paths: list[Path]) -> list[Path]:
    found: dict[bytes, Path] = {}
    for path in paths:
        tensor = core.open_tensor(path)
        found.setdefault(repr(tensor.shape).encode() + hashlib.blake2b(tensor).digest(), path)
    return list(found.values())


def _row(rows: Sequence[Row], shape: Sequence[int]) -> Row:
    """What is known of the whole by its parts, where each is one of its own; of copies that of the first."""
    name = rows[0]["param_name"]
    if all(row == rows[0] for row in rows):
        return {**rows[0], "shape": str(list(shape))}
    numbers = [{key: float(row[key]) for key in ("max", "min", "norm")} for row in rows]
    return {
        "param_name": name,
        "max": str(max(one["max"] for one in numbers)),
        "min": str(min(one["min"] for one in numbers)),
        "norm": str(math.hypot(*(one["norm"] for one in numbers))),
        "shape": str(list(shape)),
    }
