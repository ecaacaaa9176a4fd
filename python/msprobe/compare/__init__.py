# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Comparing two data dumps, and what is done with the results."""
