# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Observers are off inside of a compiled region, and on again after it, with every version of torch."""

from __future__ import annotations

from typing import Any

import torch
import torch._dynamo
from msprobe.hooks.functions import OffWhileCompiled


class Log:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def install(self) -> None:
        self.seen.append("on")

    def remove(self) -> None:
        self.seen.append("off")


@torch._dynamo.disable
def left_out(x: Any) -> Any:
    return x + 1


def test_a_function_left_out_of_a_region_does_not_keep_observers_off():
    log = Log()
    observers = OffWhileCompiled([log])
    observers.install()
    try:
        function = torch.compile(lambda x: left_out(x.sin()).cos(), backend="eager")
        for _ in range(3):
            function(torch.ones(2))
    finally:
        observers.remove()
    assert log.seen == ["off", "on"] * 3
