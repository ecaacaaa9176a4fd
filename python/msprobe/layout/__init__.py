# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How the values of a parallel job lie over its ranks, and its record read as that of one logical run
(docs/layouts.md).
"""
