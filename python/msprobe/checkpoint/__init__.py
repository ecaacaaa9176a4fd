# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Do two checkpoints differ, and where? Reads any layout without torch and runs nothing of what it reads."""
