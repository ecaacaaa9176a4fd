# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Does a training that is stopped and resumed go on as one that was never stopped?"""
