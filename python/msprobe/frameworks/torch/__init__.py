# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch without its native adapter: what `msprobe._torch` does, by way of Python, for a torch that it was
not built for.
"""
