# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of small models in the layouts that training programs write."""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import torch

Model = dict[str, torch.Tensor]


def tensor(name: str, *shape: int, seed: int = 0) -> torch.Tensor:
    """The same for the same name, so that layouts of one model agree."""
    generator = torch.Generator().manual_seed(seed + zlib.crc32(name.encode()))
    return torch.randn(shape, generator=generator)


def settings(**values: Any) -> argparse.Namespace:
    """As Megatron keeps its arguments."""
    base: dict[str, Any] = {
        "tensor_model_parallel_size": 1,
        "pipeline_model_parallel_size": 1,
        "expert_model_parallel_size": 1,
        "num_experts": None,
        "num_attention_heads": 4,
        "hidden_size": 16,
    }
    return argparse.Namespace(**{**base, **values})


def write_rank(
    folder: Path, rank: str, model: Model | list[Model], args: argparse.Namespace, **more: Any
) -> Path:
    """One rank of a Megatron checkpoint; a list of models becomes model0, model1, ..."""
    content: dict[str, Any] = {"args": args, "checkpoint_version": 3.0, "iteration": 7, **more}
    if isinstance(model, list):
        content |= {f"model{i}": collections.OrderedDict(part) for i, part in enumerate(model)}
    else:
        content["model"] = collections.OrderedDict(model)
    path = folder / rank / "model_optim_rng.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)
    return path


def rows(value: torch.Tensor, count: int) -> list[torch.Tensor]:
    return [part.clone() for part in value.chunk(count, 0)]


def columns(value: torch.Tensor, count: int) -> list[torch.Tensor]:
    return [part.clone() for part in value.chunk(count, 1)]


def gated(value: torch.Tensor, count: int) -> list[torch.Tensor]:
    gate, up = value.chunk(2, 0)
    return [torch.cat(pair) for pair in zip(gate.chunk(count, 0), up.chunk(count, 0))]


def write_safetensors(path: Path, tensors: Model, metadata: dict[str, str] | None = None) -> None:
    """The format, written by hand: the package for it is not needed."""
    names = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.int64: "I64",
             torch.float8_e4m3fn: "F8_E4M3"}  # fmt: skip
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    data = b""
    for name, value in tensors.items():
        raw = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": names[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def run(*arguments: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "msprobe", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def close(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=1e-5, abs_tol=1e-6)


def save(path: Path, content: object, **options: Any) -> Path:
    """A file of torch.save."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path, **options)
    return path
