# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of mindstudio-probe."""

from msprobe.compat.trainer_mon.trainer_mon import TrainerMon

__all__ = ["TrainerMon"]
