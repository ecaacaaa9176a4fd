# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Whether an installation is sound."""
