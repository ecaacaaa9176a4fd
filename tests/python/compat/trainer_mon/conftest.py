# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What tests of TrainerMon share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from training_sample import DATA


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where TrainerMon writes."""
    folder = tmp_path / "monitor_output"
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(folder))
    monkeypatch.delenv("DYNAMIC_MONITOR", raising=False)
    return folder


@pytest.fixture
def make_monitor(tmp_path: Path, output: Path) -> Iterator[Callable[..., Any]]:
    """make_monitor(config) or make_monitor(case="csv_all"): a TrainerMon for plain torch."""
    from msprobe.pytorch import TrainerMon

    made: list[Any] = []

    def make(config: dict[str, Any] | None = None, *, case: str | None = None, **kwargs: Any) -> Any:
        if case is not None:
            config = json.loads((DATA / case / "config.json").read_text())
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
        kwargs.setdefault("params_have_main_grad", False)
        made.append(TrainerMon(str(path), **kwargs))
        return made[-1]

    yield make
    for monitor in made:
        monitor._end()


@pytest.fixture
def run_folder(output: Path) -> Callable[[], Path]:
    """The one folder of a run."""

    def find() -> Path:
        folders = [path for path in output.iterdir() if "-rank" in path.name]
        assert len(folders) == 1, folders
        return folders[0]

    return find
