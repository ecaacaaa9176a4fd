# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of the existing tool."""

from msprobe.monitoring.trainer_mon import TrainerMon

__all__ = ["TrainerMon"]
