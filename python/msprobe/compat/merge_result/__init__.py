# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""merge_result: the comparisons of several ranks in one workbook."""
