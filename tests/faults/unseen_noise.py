# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Rounding noise whose own random numbers the recording of seeds and random calls does not see: what another
device does, in a run of `msprobe run` or `msprobe.capture`.
"""

from __future__ import annotations

import numpy
import torch
from noise import RoundingNoise


class UnseenNoise(RoundingNoise):
    """Draws by a generator that is made of its parts, as no training does it."""

    def __init__(self, seed: int, ulps: float = 4.0) -> None:
        torch.utils._python_dispatch.TorchDispatchMode.__init__(self)
        self._ulps = ulps
        self._numbers = numpy.random.Generator(numpy.random.PCG64(seed))

    def _draw(self, shape: torch.Size) -> torch.Tensor:
        return torch.from_numpy(self._numbers.random(tuple(shape))).mul(2).sub(1)
