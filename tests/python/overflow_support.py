# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Dumps for the tests of the overflow analysis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import recorded_calls
from archives import unpack
from recorded_calls import INF, NAN, call, value, write_dump

__all__ = ["DATA", "INF", "NAN", "call", "tensor", "unpacked", "value", "write_rank"]

DATA = Path(__file__).resolve().parents[1] / "data"


def unpacked(name: str, folder: Path) -> Path:
    """The dump path of a golden archive `folder/name`, unpacked below `folder` of the test."""
    archive = next(path for path in (DATA / "overflow", DATA / "dump") if (path / f"{name}.tar.gz").exists())
    unpack(archive / f"{name}.tar.gz", folder)
    return folder / name / "dump"


def tensor(largest: float = 1.0, smallest: float = 0.0, **fields: Any) -> dict[str, Any]:
    return recorded_calls.tensor(largest, smallest, **{"Mean": 0.0, "Norm": 0.0, **fields})


def write_rank(folder: Path, data: dict[str, Any], **header: Any) -> Path:
    """Writes the three files of a rank; returns the path of dump.json."""
    path = write_dump(folder, data, **header)
    for name in ("stack.json", "construct.json"):
        (folder / name).write_text("{}", encoding="utf-8")
    return path
