# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is in a file."""
