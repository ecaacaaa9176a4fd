# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TrainerMon: the monitor of mindstudio-probe, under its names and with its files."""
