# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Infinities and NaN: where the first one was made (`origin`), and whether a device makes one where the CPU
makes none (`repetition`).
"""
