# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What tests of TrainerMon read of its files."""

from __future__ import annotations

from pathlib import Path

from training_sample import read_rows


def rows_of(folder: Path, prefix: str) -> dict[tuple[str, ...], list[str]]:
    """All rows of a kind of file by name, step and micro step."""
    found = {}
    for path in folder.glob(f"{prefix}_[0-9]*.csv"):
        header, *rows = read_rows(path)
        names = 4 if "micro_step" in header else 3
        found.update({tuple(row[1:names]): row[names:] for row in rows})
    return found
