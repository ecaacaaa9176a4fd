# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The viewer: graph comparisons (`.vis.db`) as a local web page."""
