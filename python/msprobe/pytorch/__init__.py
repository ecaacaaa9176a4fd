# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of the existing tool: ``from msprobe.pytorch import PrecisionDebugger``."""

from msprobe.debugger import PrecisionDebugger
from msprobe.seed import seed_all

__all__ = ["PrecisionDebugger", "seed_all"]
