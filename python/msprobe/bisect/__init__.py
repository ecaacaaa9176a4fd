# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The least of some changes with which a check of the user's passes."""
