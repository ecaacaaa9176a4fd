# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Of how many terms an element of a result is made, and of what size they are: what an a-priori bound of its
error follows from.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msprobe.native import core
from msprobe.replay.arguments import tensors_in
from msprobe.replay.execution import Inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from msprobe.replay.dump_file import RecordedCall

_STEP = 2.0**-20
"""Relative change of the arguments: far above the rounding of float64, and small enough to be linear."""
_SEED = 20261121


def plain_name(function: str) -> str:
    """Without the module, and without the mark of a function that works in place."""
    name = function.rpartition(".")[2]
    return name if name.endswith("__") else name.rstrip("_")


def is_sum_of_products(call: RecordedCall) -> bool:
    """With squared arguments it gives the sum of the squared terms, and so do its gradients."""
    return core.find_operator(call.function).sums_products


def rounds_between(call: RecordedCall, *, gradient: bool) -> bool:
    """Whether a good implementation may round the partial sums of a sum of products to the dtype of the
    result: of several kernels, and in the gradient of what is added, which is a sum of its own.
    """
    operator = core.find_operator(call.function)
    return operator.rounds_between or (gradient and operator.adds_first)


@lru_cache(maxsize=1024)
def _is_one_kernel(name: str) -> bool:
    import torch

    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return False
    for overload in packet._overload_names:
        operator = getattr(packet, overload)
        if torch.Tag.pointwise in operator.tags:
            return bool(torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CPU"))
    return False


def is_one_kernel(call: RecordedCall) -> bool:
    """Whether the function computes each element of its result on its own, by one kernel, which rounds to the
    dtype of the result once.
    """
    return _is_one_kernel(plain_name(call.function))


def has_spread_errors(call: RecordedCall) -> bool:
    """Whether kernels may compute in a transformed domain, where errors are those of the largest terms."""
    return core.find_operator(call.function).is_transformed


# ---- how many


def term_count(call: RecordedCall, inputs: Inputs, output_elements: int) -> int:
    """Terms of one element of the result, from the shapes of the arguments. 1: it is made of one element of
    each argument.
    """
    shapes = [list(tensor.shape) for tensor in tensors_in([inputs.args, inputs.kwargs])]
    operator = core.find_operator(call.function)
    given = None
    if operator.terms_argument:
        at = operator.terms_position
        positional = inputs.args[at] if len(inputs.args) > at else None
        given = inputs.kwargs.get(operator.terms_argument, positional)
    number = given if isinstance(given, int) and not isinstance(given, bool) else None
    numbers = (
        [extent for extent in given if isinstance(extent, int)] if isinstance(given, (list, tuple)) else []
    )
    return int(operator.term_count(shapes, output_elements, number, numbers))


def term_count_of_gradient(forward: int, output_elements: int, gradient_elements: int) -> int:
    """All products of a sum of products occur in each of its gradients as well, on fewer or more elements."""
    return max(1, forward, math.ceil(forward * output_elements / max(1, gradient_elements)))


# ---- of what size


def squared(inputs: Inputs) -> Inputs:
    """For a sum of products: what it gives for these is the sum of the squares of its terms."""

    def square(value: Any) -> Any:
        if isinstance(value, float):
            return value * value
        return value

    return _with_tensors(inputs, lambda tensor, _: tensor * tensor, square)


def moved(inputs: Inputs) -> Inputs:
    """Each element changed by a fixed small part of itself, up or down by chance: how the result follows is
    what roundings of the arguments, and of what is computed on the way, do to it.
    """
    import torch

    generator = torch.Generator().manual_seed(_SEED)

    def move(tensor: torch.Tensor, count: int) -> torch.Tensor:
        signs = torch.randint(0, 2, tensor.shape, generator=generator, dtype=torch.int8)
        return tensor * (1 + (2.0 * signs.to(torch.float64) - 1) * _STEP)

    return _with_tensors(inputs, move, lambda value: value)


STEP = _STEP


def _with_tensors(
    inputs: Inputs, change: Callable[[torch.Tensor, int], torch.Tensor], scalar: Callable[[Any], Any]
) -> Inputs:
    """Tensors with fractions in float64, changed; the others as they are."""
    import torch

    def changed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if not (value.is_floating_point() or value.is_complex()):
                return value
            wide = value.detach().to(torch.complex128 if value.is_complex() else torch.float64)
            new = change(wide, wide.numel())
            return new.requires_grad_() if value.requires_grad else new
        if isinstance(value, list):
            return [changed(entry) for entry in value]
        if isinstance(value, dict):
            return {key: changed(entry) for key, entry in value.items()}
        return scalar(value)

    return replace(
        inputs,
        args=changed(inputs.args),
        kwargs=changed(inputs.kwargs),
        gradients=[None if g is None else changed(g) for g in inputs.gradients],
    )
