# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Golden files of the operator check, and how tables are compared."""

from __future__ import annotations

import csv
from pathlib import Path

from archives import unpack

DATA = Path(__file__).resolve().parents[3] / "data/accuracy"


def samples(folder: Path) -> Path:
    unpack(DATA / "samples.tar.xz", folder)
    return folder


def only(folder: Path, pattern: str) -> Path:
    """The one file of that name."""
    (found,) = folder.glob(pattern)
    return found


def table(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def by_name(path: Path) -> dict[str, list[str]]:
    _, *rows = table(path)
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row for row in rows}


def cells_agree(ours: str, theirs: str, tolerance: float = 1e-6) -> bool:
    if ours == theirs:
        return True
    try:
        left, right = float(ours), float(theirs)
    except ValueError:
        return False
    return abs(left - right) <= tolerance * max(abs(left), abs(right))
