# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The prompt of mindstudio-probe: a few commands on arrays and on kernel dumps."""
