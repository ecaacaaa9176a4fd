# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Reading what the gradient probe wrote."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WriteConfig = Callable[..., Path]


class Record:
    """The directory of one rank."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def steps(self) -> list[int]:
        names = (re.fullmatch(r"grad_summary_(\d+)\.csv", path.name) for path in self.directory.iterdir())
        return sorted(int(name[1]) for name in names if name)

    def rows(self, step: int) -> dict[str, dict[str, str]]:
        """The csv of a step by parameter name."""
        path = self.directory / f"grad_summary_{step}.csv"
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len({row["param_name"] for row in rows}) == len(rows)
        return {row["param_name"]: row for row in rows}

    def names(self, step: int) -> list[str]:
        return list(self.rows(step))

    def signs(self, step: int, name: str) -> Any:
        import numpy as np

        return np.load(self.directory / f"step{step}" / f"{name}.npy")


@pytest.fixture
def record_of() -> type[Record]:
    """record_of(directory of a rank)"""
    return Record


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Of rank 0."""
    return Record(tmp_path / "probe" / "rank0")


@pytest.fixture
def monitor(write_config: WriteConfig, fresh_debugger: None) -> Callable[..., None]:
    """monitor(model, section, **keys): puts the model under a fresh probe."""
    from msprobe import PrecisionDebugger

    def start(model: object, section: Any = None, **keys: Any) -> None:
        PrecisionDebugger(write_config(section, **keys))
        PrecisionDebugger.monitor(model)

    return start
