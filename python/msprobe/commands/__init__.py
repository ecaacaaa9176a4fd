# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The table of commands; each command lies in its feature."""
