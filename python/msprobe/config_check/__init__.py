# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Config check: were two training runs set up alike?"""
