# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Recording a training that does not know of it: its script, its models and its steps are found by
themselves.

What is recorded is the concern of others: a `RecordedTraining` leads any number of `Recorder`s along the
training.
"""
