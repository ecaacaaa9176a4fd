# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The pack: a zip file of what was collected, written by the training, read as if it were hostile."""
