# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Does a training repeat itself? It is run twice from the same start, and what would make it repeat is proved
by running with it.
"""
