# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What differs between two packs, one file per kind of setting."""
