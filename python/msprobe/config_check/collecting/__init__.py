# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a training is set up with: its arguments, settings, seeds, random calls, data and weights."""
