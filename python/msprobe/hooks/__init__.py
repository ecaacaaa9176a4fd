# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The only place that patches torch. Every hook can be taken off again."""
