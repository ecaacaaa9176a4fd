# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What every optimizer step sees of the gradients, and the comparison of two such records."""
