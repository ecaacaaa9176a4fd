# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A network."""

from __future__ import annotations

from mindspore import Tensor, nn, ops


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Dense(4, 6), nn.Dense(6, 2)

    def construct(self, x: Tensor) -> Tensor:
        return self.fc2(ops.relu(self.fc1(x)))
