# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A small training whose every step can be recorded by a TrainingState."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

Read = Callable[..., dict[str, Any]]

KINDS = ("inputs", "parameters", "gradients", "optimizer", "rng", "modules", "determinism")
# The sections of the file that each kind writes.
SECTIONS = {
    "inputs": {"inputs"},
    "parameters": {"parameters", "buffers"},
    "gradients": {"backward", "clipping", "gradients_at_optimizer"},
    "optimizer": {"optimizer", "scaler"},
    "rng": {"rng"},
    "modules": {"modules"},
    "determinism": {"determinism"},
}


class Net(nn.Module):
    """In-place modules, buffers, dropout, a frozen and an unused parameter, and a keyword argument."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(0.25), nn.GELU("tanh")
        )
        self.head = nn.Linear(8, 3, bias=False)
        self.frozen = nn.Linear(3, 3)
        self.frozen.requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(2))
        self.activation = nn.functional.softmax
        self.heads = 4
        self._hidden = 5

    def forward(self, x: Any, scale: Any = None) -> Any:
        return self.frozen(self.head(self.body(x))) * (1.0 if scale is None else scale)


def crc32(tensor: Any) -> str:
    return f"{zlib.crc32(tensor.detach().contiguous().numpy().tobytes()):08x}"


def same(entry: dict[str, Any], tensor: Any) -> bool:
    """The entry tells of these elements: checksum exactly, statistics against torch in double."""
    wide = tensor.detach().double()
    expected = (float(wide.min()), float(wide.max()), float(wide.mean()), float(wide.norm()))
    found = tuple(entry[name] for name in ("min", "max", "mean", "norm"))
    return (
        entry["dtype"] == str(tensor.dtype)
        and entry["shape"] == list(tensor.shape)
        and entry["crc32"] == crc32(tensor)
        and found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    )
