# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a training is made of: steps, phases, optimizers, collectives, and how its values are measured."""
