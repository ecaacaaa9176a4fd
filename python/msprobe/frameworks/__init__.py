# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a framework has to tell of itself, and those that do (docs/adr/0036)."""
