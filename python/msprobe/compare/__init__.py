# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Comparison of two dumps: the tables, and the verdict that names where the runs diverge."""
