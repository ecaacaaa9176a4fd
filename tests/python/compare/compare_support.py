# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Small dumps for tests of the comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Data = dict[str, Any]


def tensor(value: float, **fields: Any) -> Data:
    statistics = {"Max": value + 1, "Min": value - 1, "Mean": value, "Norm": abs(value) * 2}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], **statistics, **fields}


def call(value: float, result: float | None = None) -> Data:
    output = tensor(value * 2 if result is None else result)
    return {"input_args": [tensor(value)], "input_kwargs": {}, "output": [output]}


def steps_of(count: int) -> Data:
    return {f"Torch.add.{i}.forward": call(i + 1.0) for i in range(count)}


def write_dump(folder: Path, data: Data, *, task: str = "statistics", name: str = "dump.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    content = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    path.write_text(json.dumps(content))
    return path


def write_run(folder: Path, ranks: list[str], steps: list[int], data: Data) -> Path:
    """dump_path with steps and ranks, all with the same data."""
    for step in steps:
        for rank in ranks:
            write_dump(folder / f"step{step}" / rank, data)
    return folder
