# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What tests of the monitor share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msprobe
import pytest
from monitor_record import Record


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """start(model, optimizer, **settings): a monitor that writes to tmp_path/run."""
    running: list[Any] = []

    def begin(model: Any, optimizer: Any = None, **settings: Any) -> Any:
        settings.setdefault("output", tmp_path / "run")
        running.append(msprobe.monitor(model, optimizer, **settings))
        return running[-1]

    yield begin
    for one in running:
        one.close()


@pytest.fixture
def record(tmp_path: Path) -> Callable[[], Record]:
    return lambda: Record(tmp_path / "run")
