# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The data dump: records of the modules and functions that a training step calls."""
