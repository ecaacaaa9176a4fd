# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a person meets in the terminal: options, colours, progress."""
