# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training script, unchanged, and recorded."""
