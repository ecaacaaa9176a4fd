# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Dumps and operators of tests/operators, for the tests of the check."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

OPERATORS = Path(__file__).resolve().parents[2] / "operators"
sys.path.insert(0, str(OPERATORS))


def rows(folder: Path) -> list[dict[str, str]]:
    """Of calls.csv."""
    with open(folder / "calls.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
