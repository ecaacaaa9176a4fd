# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Looking at records of the monitor: one training over its steps, or where two of them part."""
