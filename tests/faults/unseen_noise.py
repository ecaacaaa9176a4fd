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


class SteadyNoise(UnseenNoise):
    """What it is off by follows from the result alone, as kernels of another device give the same result for
    the same inputs, whatever was called before.
    """

    def _disturb(self, tensor: torch.Tensor, of_the_whole: float) -> None:
        self._result = tensor.double()
        super()._disturb(tensor, of_the_whole)

    def _draw(self, shape: torch.Size) -> torch.Tensor:
        bits = self._result.contiguous().view(torch.int64).bitwise_right_shift(20)
        mixed = bits.mul(0x9E3779B97F4A7C15 - (1 << 64)).bitwise_right_shift(33).bitwise_and(0x3FFFFFFF)
        return mixed.double().div(1 << 29).sub(1).reshape(shape)
