# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""SingleSave and SingleComparator: values that a program saves by name, and their comparison."""
