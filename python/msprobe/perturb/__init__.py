# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe perturb: what a training makes of rounding, without a second run (docs/perturb.md)."""
