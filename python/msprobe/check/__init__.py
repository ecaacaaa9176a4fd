# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which operators of a dump are wrong: every recorded call against the truth."""
