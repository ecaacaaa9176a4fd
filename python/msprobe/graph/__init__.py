# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Graphs of the hierarchy of a model, with what a run recorded in it."""
