# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of mindstudio-probe."""

from msprobe.compat.trainer_mon.csv_to_tensorboard import csv2tensorboard_by_step

__all__ = ["csv2tensorboard_by_step"]
