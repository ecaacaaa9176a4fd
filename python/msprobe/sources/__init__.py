# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What `msprobe show` and `msprobe diff` look at: every kind of file as a source of named entries."""
