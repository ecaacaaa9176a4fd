# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of mindstudio-probe: ``from msprobe.pytorch import PrecisionDebugger``."""

from __future__ import annotations

from msprobe.compat.compare import compare, compare_distributed
from msprobe.compat.other_names import missing
from msprobe.compat.trainer_mon.trainer_mon import TrainerMon
from msprobe.config_check.checker import ConfigChecker
from msprobe.debugger import PrecisionDebugger, module_dump, module_dump_end
from msprobe.seed import seed_all

__all__ = [
    "ConfigChecker",
    "PrecisionDebugger",
    "TrainerMon",
    "compare",
    "compare_distributed",
    "module_dump",
    "module_dump_end",
    "seed_all",
]


def __getattr__(name: str) -> object:
    raise missing(__name__, name)
