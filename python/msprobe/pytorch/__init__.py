# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of the existing tool: ``from msprobe.pytorch import PrecisionDebugger``."""

from msprobe.debugger import PrecisionDebugger

__all__ = ["PrecisionDebugger"]
