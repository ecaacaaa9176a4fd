# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What tests of the free benchmark run in a child, and how they read what it wrote."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

MODES = ("add_noise", "bit_noise", "change_value", "improve_precision", "no_change", "to_cpu")


def section_of(mode: str, **keys: Any) -> dict[str, Any]:
    return {"pert_mode": mode, "fuzz_device": "cpu" if mode == "to_cpu" else "npu", **keys}


def debugger(directory: Path, mode: str, *, top: dict[str, Any] | None = None, **keys: Any) -> Any:
    """The debugger of this process, which writes to directory/dump."""
    from msprobe import PrecisionDebugger

    content = {
        "task": "free_benchmark",
        "dump_path": str(directory / "dump"),
        "level": "L1",
        "free_benchmark": section_of(mode, **keys),
        **(top or {}),
    }
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "config.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    PrecisionDebugger._reset()
    return PrecisionDebugger(path)


def folder_of(directory: Path, step: int = 0, rank: int | None = None) -> Path:
    return directory / "dump" / f"step{step}" / ("rank" if rank is None else f"rank{rank}")


def rows_of(directory: Path, step: int = 0, rank: int | None = None) -> list[dict[str, str]]:
    path = folder_of(directory, step, rank) / "free_benchmark.csv"
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def summary_of(directory: Path, step: int = 0, rank: int | None = None) -> Any:
    text = (folder_of(directory, step, rank) / "free_benchmark_summary.json").read_text(encoding="utf-8")
    return json.loads(text)


def observe(directory: Path, mode: str, work: Any, **keys: Any) -> Any:
    """What one step of `work` under the free benchmark gives, with nothing gone wrong inside."""
    from msprobe import PrecisionDebugger

    probe = debugger(directory, mode, **keys)
    probe.start()
    result = work()
    probe.stop()
    probe.step()
    PrecisionDebugger._reset()
    summary = summary_of(directory)
    assert summary["faults"] == {}
    return result
