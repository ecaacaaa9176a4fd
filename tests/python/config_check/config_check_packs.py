# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Packs made by hand."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "data" / "config_check"

OURS = {"msprobe/pack.json": {"format": 1, "run": "x", "number": 0}}

Entries = dict[str, Any]


def write_pack(path: Path, entries: Entries) -> Path:
    """`entries`: text, bytes, or what becomes JSON."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content if isinstance(content, (str, bytes)) else json.dumps(content))
    return path


def stats(value: float) -> dict[str, float]:
    return dict.fromkeys(("max", "min", "mean", "norm"), value)


def check_of(result: Any, name: str) -> Any:
    return next(check for check in result.checks if check.name == name)
