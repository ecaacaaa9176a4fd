# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Commands, files and names of mindstudio-probe that are no feature of our own.

This floor may use everything below the command line; nothing uses it but the doors through which its names
are imported (msprobe.pytorch, msprobe.core) and the tables that name it.
"""
