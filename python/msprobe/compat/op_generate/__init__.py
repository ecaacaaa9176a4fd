# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""op_generate: a script that runs one recorded call, as mindstudio-probe writes it."""
