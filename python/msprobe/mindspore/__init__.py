# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of mindstudio-probe for MindSpore: ``from msprobe.mindspore import PrecisionDebugger``."""

from __future__ import annotations

from typing import Any

from msprobe.compat.other_names import missing
from msprobe.compat.trainer_mon.mindspore import TrainerMon
from msprobe.frameworks.mindspore.seed import seed_all
from msprobe.mindspore.callbacks import MsprobeInitStep, MsprobeStep
from msprobe.mindspore.debugger import PrecisionDebugger
from msprobe.native import UnsupportedError

__all__ = [
    "MsprobeInitStep",
    "MsprobeStep",
    "PrecisionDebugger",
    "TrainerMon",
    "save",
    "save_grad",
    "seed_all",
]

_STATIC = (
    "{}: tensors of static graphs are saved by Ascend's TensorDump, which msprobe does not drive; in "
    "PYNATIVE_MODE use PrecisionDebugger.save(variable, name) at level debug"
)


def save(save_dir: str, name: str, data: Any) -> None:
    """Keeps tensors of a static graph, which only Ascend can: not available. Raises UnsupportedError."""
    raise UnsupportedError(_STATIC.format("save"))


def save_grad(save_dir: str, name: str, data: Any) -> None:
    """Keeps a gradient of a static graph: not available. Raises UnsupportedError."""
    raise UnsupportedError(_STATIC.format("save_grad"))


def __getattr__(name: str) -> object:
    raise missing(__name__, name)
