# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of mindstudio-probe."""

from msprobe.rl.comparator import SingleComparator
from msprobe.rl.single_save import SingleSave

__all__ = ["SingleComparator", "SingleSave"]
