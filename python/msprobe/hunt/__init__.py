# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""From two commands to a proved cause: both are run and compared, and what is suspected is taken away."""
