# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Scripts of one recorded call, which need nothing but torch."""
