# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trainings that are run on purpose: each in a folder of its own, with something changed, and with a digest
of every gradient and weight, by which two of them are equal to the last bit or part at a step.

`launch` starts a command with a `plan`, `inside` is what happens in its processes, `changes` is what can be
changed, `digests` tells where two runs diverge.
"""
