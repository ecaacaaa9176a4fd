# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A small model and its dumps, for the tests of graphs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FILES = ("dump.json", "construct.json", "stack.json")


def tensor(mean: float = 0.1, shape: tuple[int, ...] = (2, 3), **more: Any) -> Json:
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": list(shape),
        "Max": 1.0,
        "Min": -1.0,
        "Mean": mean,
        "Norm": 2.0,
        "requires_grad": False,
        **more,
    }


def call(result: float = 0.1, **more: Any) -> Json:
    return {"input_args": [tensor()], "input_kwargs": {}, "output": [tensor(result)], **more}


BLOCK = "Module.block.Block.forward.0"
LINEAR = "Module.block.fc.Linear.forward.0"

# child -> parent, in the order of execution.
CONSTRUCT: dict[str, str | None] = {
    "Functional.linear.0.forward": LINEAR,
    LINEAR: BLOCK,
    "Torch.relu.0.forward": BLOCK,
    BLOCK: None,
    "Torch.mean.0.forward": None,
    "Torch.sum.0.forward": None,
}


def records(**results: float) -> Json:
    """`results`: by operator or class, the mean of the output: records(relu=0.3)."""
    return {
        name: call(next((mean for key, mean in results.items() if f".{key}." in name), 0.1))
        for name in CONSTRUCT
    }


def write_rank(
    folder: Path,
    data: Json | None = None,
    construct: Mapping[str, Any] | None = None,
    *,
    task: str = "statistics",
    stacks: Json | None = None,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "task": task,
        "level": "mix",
        "framework": "pytorch",
        "dump_data_dir": None,
        "data": records() if data is None else data,
    }
    if stacks is None:
        stacks = {"0": [[LINEAR], ["File model.py, line 3, in forward, \n fc(x)"]]}
    values = (content, CONSTRUCT if construct is None else construct, stacks)
    for name, value in zip(FILES, values):
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder


def write_compare_json(path: Path, target: Path, golden: Path | None = None, **more: Any) -> Path:
    content: Json = {"npu_path": str(target), **more}
    if golden is not None:
        content["bench_path"] = str(golden)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def result_in(folder: Path, kind: str) -> Path:
    """The only file of graphs there."""
    (file,) = folder.glob("*.vis.db")
    assert file.name.startswith(f"{kind}_")
    return file


@contextmanager
def rows_of(file: Path) -> Iterator[sqlite3.Connection]:
    """The database, open for reading; rows go by their columns."""
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        yield connection
    finally:
        connection.close()


def select(file: Path, query: str) -> list[tuple[Any, ...]]:
    with rows_of(file) as connection:
        return [tuple(row) for row in connection.execute(query)]
