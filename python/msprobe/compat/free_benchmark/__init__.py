# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Task free_benchmark: every call is made a second time with a small change (docs/free_benchmark.md)."""
