# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training process for config_check.py, with this msprobe or mindstudio-probe, whichever its environment
has.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import measure
import numpy as np
import torch
from torch import nn

_DRAWS = 1000
_DEPTH = 12  # calls between the training loop and the code that draws


def equal_shapes() -> list[tuple[int, ...]]:
    """1 GiB in float32, in matrices of 4 MiB, which stay in the cache of many a processor."""
    return [(1024, 1024)] * 256


def llama_shapes() -> list[tuple[int, ...]]:
    """0.25 B parameters, 0.92 GiB in float32, in the proportions of a Llama: 15 blocks of width 1024, and an
    embedding and a head of 125 MiB each.
    """
    width, inner, words, key_values = 1024, 3072, 32000, 256
    attention = [(width, width), (key_values, width), (key_values, width), (width, width)]
    block = [(width,), *attention, (width,), (inner, width), (inner, width), (width, inner)]
    return [(words, width), *(block * 15), (width,), (words, width)]


_SHAPES = {"equal": equal_shapes, "llama": llama_shapes}


class Weights(nn.Module):
    def __init__(self, shapes: list[tuple[int, ...]]) -> None:
        super().__init__()
        self.layers = nn.ParameterList(nn.Parameter(torch.randn(shape)) for shape in shapes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Session:
    def __init__(self, settings: dict[str, Any]) -> None:
        self._folder = Path(settings["folder"])
        self._number = 0
        torch.manual_seed(0)
        self._model = Weights(_SHAPES[settings["weights"]]())

    def draw(self) -> float:
        """Seconds of the processor for the random numbers of a step."""
        begin = time.thread_time()
        _nested(_DEPTH)
        return time.thread_time() - begin

    def patch(self) -> None:
        from msprobe.core.config_check import ConfigChecker

        ConfigChecker.apply_patches("pytorch")

    def unpatch(self) -> None:
        from msprobe.core.config_check import ConfigChecker

        ConfigChecker.remove_patches()

    def collect(self, options: dict[str, Any]) -> list[float]:
        """Seconds of forward calls of a model that does nothing, with a new checker: the first, which also
        collects what the process is like, and one that only collects inputs and weights.
        """
        from msprobe.core.config_check import ConfigChecker

        is_ours = hasattr(ConfigChecker, "close")
        if is_ours or self._number == 0:  # every checker of mindstudio-probe stays at work
            self._number += 1
            path = self._folder / f"{os.getpid()}_{self._number}.zip"
            checker = ConfigChecker(self._model, None, str(path), "pytorch", **options)
        seconds = [self._forward(), self._forward()]
        if is_ours:
            checker.close()
        return seconds

    def md5(self) -> float:
        """Seconds for MD5 of all weights on all cores: nothing but hashlib."""
        tensors = [parameter.detach() for parameter in self._model.parameters()]
        begin = time.perf_counter()
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(lambda tensor: hashlib.md5(tensor.numpy()).digest(), tensors))
        return time.perf_counter() - begin

    def _forward(self) -> float:
        x = torch.ones(2)
        begin = time.perf_counter()
        self._model(x)
        return time.perf_counter() - begin


def _nested(depth: int) -> None:
    if depth:
        _nested(depth - 1)
        return
    for _ in range(_DRAWS // 4):
        random.random()
        np.random.rand()
        torch.rand(8)
        random.randint(0, 9)


def main() -> None:
    session = Session(json.loads(sys.argv[1]))
    handlers = {name: getattr(session, name) for name in ("draw", "patch", "unpatch", "collect", "md5")}
    measure.serve(int(sys.argv[2]), int(sys.argv[3]), handlers)


if __name__ == "__main__":
    main()
