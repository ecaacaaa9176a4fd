# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a monitor has written."""

from __future__ import annotations

from pathlib import Path

from msprobe.native import core


class Record:
    """A store that has been read."""

    def __init__(self, folder: Path, name: str = "monitor.db") -> None:
        reader = core.MonitorStoreReader(folder / name)
        self.series = {one.key: one for one in reader.series()}
        numbers = list(range(len(self.series)))
        steps, columns = reader.values(numbers, 0, 2**62)
        self.steps = steps
        self.info = reader.info()
        self.columns = dict(zip(self.series, columns))

    def __getitem__(self, key: str) -> dict[int, float]:
        """The numbers of a series by step."""
        return {step: value for step, value in zip(self.steps, self.columns[key]) if value is not None}

    def keys(self, beginning: str) -> list[str]:
        return [key for key in self.series if key.startswith(beginning)]
