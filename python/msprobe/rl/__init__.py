# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Key data of reinforcement learning: what a run saves under keys, and the comparison of two such records."""
