# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""run_overflow_check: the calls of an overflow dump, run again."""
