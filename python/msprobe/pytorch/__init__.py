# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of the existing tool: ``from msprobe.pytorch import PrecisionDebugger``."""

from msprobe.compare.comparison import compare, compare_distributed
from msprobe.config_check.checker import ConfigChecker
from msprobe.debugger import PrecisionDebugger, module_dump, module_dump_end
from msprobe.seed import seed_all

__all__ = [
    "ConfigChecker",
    "PrecisionDebugger",
    "compare",
    "compare_distributed",
    "module_dump",
    "module_dump_end",
    "seed_all",
]
