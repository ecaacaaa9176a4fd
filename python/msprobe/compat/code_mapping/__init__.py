# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""code_mapping of mindstudio-probe: which line of the program made a kernel of a MindSpore graph."""
