# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The small models under the name that tests of the dump know."""

from small_models import MODELS, Cnn, Lstm, Transformer, batch, bits, build, loss_of, train

__all__ = ["MODELS", "Cnn", "Lstm", "Transformer", "batch", "bits", "build", "loss_of", "train"]
