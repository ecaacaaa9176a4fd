# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of mindstudio-probe."""

from msprobe.compat.single_save.comparator import SingleComparator
from msprobe.compat.single_save.saver import SingleSave

__all__ = ["SingleComparator", "SingleSave"]
