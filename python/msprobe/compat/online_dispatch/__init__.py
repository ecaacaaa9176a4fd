# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every operator of a model next to the same operator on the CPU, while the program runs."""
