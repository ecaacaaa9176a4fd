# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records of dumps for the tests of what runs them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

NAN = float("nan")
INF = float("inf")


def tensor(largest: float = 1.0, smallest: float = 0.0, **fields: Any) -> dict[str, Any]:
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [2],
        "Max": largest,
        "Min": smallest,
        "Mean": None,
        "Norm": None,
        "requires_grad": False,
        **fields,
    }


def value(content: Any) -> dict[str, Any]:
    return {"type": type(content).__name__, "value": content}


def call(args: list[Any], output: list[Any] | None = None, **kwargs: Any) -> dict[str, Any]:
    return {"input_args": args, "input_kwargs": kwargs, "is_recompute": False, "output": output or []}


def write_dump(folder: Path, data: dict[str, Any], **header: Any) -> Path:
    """Returns the path of dump.json."""
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
    return path


def saved(folder: Path, name: str, x: torch.Tensor) -> dict[str, Any]:
    """The record of a tensor, which is saved as dumps save them."""
    (folder / "dump_tensor_data").mkdir(parents=True, exist_ok=True)
    torch.save(x.detach(), folder / "dump_tensor_data" / name)
    wide = x.detach().double() if not x.is_complex() else x.detach().abs().double()
    numbers = (
        {"Max": wide.max().item(), "Min": wide.min().item(), "Mean": wide.mean().item()} if x.numel() else {}
    )
    return {
        "type": "torch.Tensor",
        "dtype": str(x.dtype),
        "shape": list(x.shape),
        **numbers,
        "Norm": wide.norm().item(),
        "requires_grad": x.requires_grad,
        "data_name": name,
    }
