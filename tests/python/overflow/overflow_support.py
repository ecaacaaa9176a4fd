# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Dumps for the tests of the overflow analysis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from archives import unpack

DATA = Path(__file__).resolve().parents[2] / "data"
NAN = float("nan")
INF = float("inf")


def unpacked(name: str, folder: Path) -> Path:
    """The dump path of a golden archive `folder/name`, unpacked below `folder` of the test."""
    archive = next(path for path in (DATA / "overflow", DATA / "dump") if (path / f"{name}.tar.gz").exists())
    unpack(archive / f"{name}.tar.gz", folder)
    return folder / name / "dump"


def tensor(largest: float = 1.0, smallest: float = 0.0, **fields: Any) -> dict[str, Any]:
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [2],
        "Max": largest,
        "Min": smallest,
        "Mean": 0.0,
        "Norm": 0.0,
        "requires_grad": False,
        **fields,
    }


def value(content: Any) -> dict[str, Any]:
    return {"type": type(content).__name__, "value": content}


def call(args: list[Any], output: list[Any], **kwargs: Any) -> dict[str, Any]:
    return {"input_args": args, "input_kwargs": kwargs, "is_recompute": False, "output": output}


def write_rank(folder: Path, data: dict[str, Any], **header: Any) -> Path:
    """Writes the three files of a rank; returns the path of dump.json."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "task": "statistics",
        "level": "L1",
        "framework": "pytorch",
        "dump_data_dir": None,
        **header,
        "data": data,
    }
    path = folder / "dump.json"
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    for name in ("stack.json", "construct.json"):
        (folder / name).write_text("{}", encoding="utf-8")
    return path
