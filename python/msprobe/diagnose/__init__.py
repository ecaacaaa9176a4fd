# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One answer from everything that two runs have: where they diverge, and what is missing to say more.

What the parts of a run say is the concern of others: here it is put in order.
"""
