# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Operators against a benchmark, with the commands, files and rules of mindstudio-probe."""
