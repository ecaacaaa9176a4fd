# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The processor in the place of a device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

from msprobe import _torch

Way = Literal["kernel", "operators"]


@contextlib.contextmanager
def as_device(way: Way) -> Iterator[None]:
    """Tensors of the CPU are measured as those of a device."""
    _torch.set_device_way(way)
    try:
        yield
    finally:
        _torch.set_device_way("none")
