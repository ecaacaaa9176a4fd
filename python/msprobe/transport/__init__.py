# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Recorded steps on their way from a training to a checker, over TCP or a shared folder."""
