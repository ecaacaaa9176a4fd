# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The rule of mindstudio-probe for one result next to its benchmark, with its constants. It fails some
half-precision operators that are right: beside it stand the measures of `msprobe check`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ERROR_LIMIT = {"torch.float16": 2**-11, "torch.bfloat16": 2**-8}
BALANCE_LIMIT = {"torch.float16": 2**-10, "torch.bfloat16": 2**-7}
LIMIT = 2**-14
"""Of both, for float32 and float64."""
_EPSILON = 2**-23
_NORMAL = 1.0
"""Largest errors are looked for where the benchmark is at least this."""


@dataclass(frozen=True)
class Measures:
    """Of one result. Indices count flattened elements."""

    passes: bool
    message: str = ""
    balance: float | None = None  # None, here and below: it was not measured
    max_absolute: float | None = None
    max_absolute_index: int | None = None
    max_relative: float | None = None
    max_relative_index: int | None = None
    balance_limit: float | None = None
    error_limit: float | None = None


def measure(device: torch.Tensor, reference: torch.Tensor) -> Measures:
    """Both on the CPU and of the same shape; limits are those of the dtype of `device`."""
    dtype = str(device.dtype)
    return _compared(device, reference, ERROR_LIMIT.get(dtype, LIMIT), BALANCE_LIMIT.get(dtype, LIMIT))


def _compared(
    device: torch.Tensor, reference: torch.Tensor, error_limit: float, balance_limit: float
) -> Measures:
    import torch

    if device.shape != reference.shape:
        return Measures(False, f"shapes differ: {list(device.shape)} and {list(reference.shape)}")
    if device.is_complex():
        device, reference = (
            torch.view_as_real(device.resolve_conj()),
            torch.view_as_real(reference.resolve_conj()),
        )
    if device.numel() == 0:
        return Measures(True, "no elements")
    if not (device.is_floating_point() and reference.is_floating_point()):
        return Measures(torch.equal(device, reference.to(device.dtype)), "", 0, 0, None, 0)
    d, b = device.double().reshape(-1), reference.double().reshape(-1)
    # The benchmark may be in double; what is infinite in single is so for the rule.
    if not bool(torch.isfinite(b if device.dtype == torch.float64 else b.float()).all()):
        return Measures(True, "the benchmark has NaN or infinities")
    if not bool(torch.isfinite(d).all()):
        return Measures(False, "only the device has NaN or infinities")
    difference = d - b
    size = b.abs()
    normal = size >= _NORMAL
    relative = difference / (size + _EPSILON)
    balance = float(torch.where(normal, relative, difference).mean())
    any_normal = bool(normal.any())
    largest: list[tuple[float, int | None]] = []
    for values in (difference, relative):
        value, index = torch.where(normal, values.abs(), 0.0).max(0)
        largest.append((float(value), int(index) if any_normal else None))
    absolute, of_size = largest
    passes = balance <= balance_limit and absolute[0] <= error_limit and of_size[0] <= error_limit
    return Measures(passes, "", balance, *absolute, *of_size, balance_limit, error_limit)
