# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files of any feature: written whole or not at all, read as if they were hostile."""
