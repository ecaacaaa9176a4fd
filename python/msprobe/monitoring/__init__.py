# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a training does over time: statistics of gradients, weights, optimizer states and activations at every
step, and rules that watch them.
"""
