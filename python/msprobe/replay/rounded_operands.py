# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls whose float32 operands a device rounds before it multiplies them (tensors/float32_products.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msprobe.native import core
from msprobe.replay.terms import plain_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from msprobe.replay.dump_file import RecordedCall
    from msprobe.replay.execution import Inputs
    from msprobe.tensors.float32_products import Kind, Rounding

_MANTISSA = 23
# Sums of products that no matrix unit computes.
_OF_VECTORS = ("addmv", "addr", "dot", "ger", "kron", "mv", "outer", "vdot", "vecdot")


def _kind_of(function: str) -> Kind | None:
    operator = core.find_operator(function)
    if operator.gain == "recurrent":
        return "rnn"
    if operator.gain == "attention":
        return "matmul"
    if operator.gain != "product" or not operator.sums_products or plain_name(function) in _OF_VECTORS:
        return None
    return "conv" if operator.is_transformed else "matmul"


def is_product(function: str) -> bool:
    """Whether a device may round the operands of a function of this name."""
    return _kind_of(function) is not None


def rounding_of(call: RecordedCall, inputs: Inputs, roundings: Mapping[Kind, Rounding]) -> Rounding | None:
    """What is done to the operands of this call; None: nothing."""
    import torch

    kind = _kind_of(call.function) if roundings else None
    return roundings.get(kind) if kind is not None and torch.float32 in inputs.dtypes else None


def with_rounded_operands(call: RecordedCall, inputs: Inputs, rounding: Rounding) -> Inputs:
    """The same call as the device computes it: what is multiplied is rounded, what is added is not."""
    adds_first = core.find_operator(call.function).adds_first

    def of(place: int | str, value: Any) -> Any:
        return value if _is_added(place, value, adds_first) else _rounded(value, rounding.bits)

    return replace(
        inputs,
        args=[of(place, value) for place, value in enumerate(inputs.args)],
        kwargs={name: of(name, value) for name, value in inputs.kwargs.items()},
        gradients=[_rounded(gradient, rounding.bits) for gradient in inputs.gradients],
    )


def _is_added(place: int | str, value: Any, adds_first: bool) -> bool:
    """The first argument of addmm, a bias (the third, with one dimension), the mask of attention."""
    if adds_first:
        return place in (0, "input")
    return place in (3, "bias", "attn_mask") or (place == 2 and getattr(value, "ndim", 0) == 1)


def _rounded(value: Any, bits: int) -> Any:
    import torch

    if isinstance(value, (list, tuple)):
        return type(value)(_rounded(entry, bits) for entry in value)
    if not isinstance(value, torch.Tensor) or value.dtype is not torch.float32:
        return value
    return to_bits(value, bits).requires_grad_(value.requires_grad)


def to_bits(tensor: torch.Tensor, bits: int) -> torch.Tensor:
    """A float32 tensor with so many bits of mantissa; the others are cut off. A matrix unit that rounds to
    the nearest is more exact.
    """
    import torch

    whole = tensor.detach().contiguous().view(torch.int32)
    short = whole.bitwise_and(-(1 << (_MANTISSA - bits))).view(torch.float32)
    return torch.where(torch.isfinite(tensor), short, tensor.detach())
