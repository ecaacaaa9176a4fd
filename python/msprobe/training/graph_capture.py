# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: what a script captures computes nothing at that time, and may not be disturbed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from msprobe.native import torch_adapter

if TYPE_CHECKING:
    from collections.abc import Callable


def captures_graph() -> bool:
    """Whether this thread captures a CUDA graph: nothing is recorded then, and no step begins or ends. Asks
    nothing that a mode of torch could see.
    """
    return _native()()


@functools.lru_cache(maxsize=1)
def _native() -> Callable[[], bool]:
    asked: Callable[[], bool] = torch_adapter().captures_graph
    return asked
