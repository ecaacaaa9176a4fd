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

from msprobe.replay.arguments import tensors_in
from msprobe.replay.execution import Inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from msprobe.replay.dump_file import RecordedCall

_STEP = 2.0**-20
"""Relative change of the arguments: far above the rounding of float64, and small enough to be linear."""
_SEED = 20261121

# Sums of products of their arguments: with squares in place of these they give the sum of the squared terms,
# and so do their gradients.
_PRODUCTS = frozenset(
    (
        "__matmul__", "__rmatmul__", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bilinear", "bmm",
        "chain_matmul", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d", "convolution", "_convolution", "cumsum", "dot", "einsum", "ger", "inner", "kron",
        "linear", "matmul", "mm", "multi_dot", "mv", "npu_linear", "outer", "sum", "tensordot",
        "trace", "vdot", "vecdot",
    )
)  # fmt: skip
# Those that are several kernels, and so round between them to the dtype of the result.
_COMPOSED = frozenset(
    (
        "addbmm", "addr", "bilinear", "chain_matmul", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d", "ger", "inner", "kron", "multi_dot", "outer", "vecdot",
    )
)  # fmt: skip
_ADDED = ("addbmm", "addmm", "addmv", "addr", "baddbmm")
"""The gradient of what is added is a sum of its own."""
_TRANSFORMED = ("conv1d", "conv2d", "conv3d", "convolution", "_convolution")
"""Kernels may compute these in a transformed domain, where errors are those of the largest terms."""


def plain_name(function: str) -> str:
    """Without the module, and without the mark of a function that works in place."""
    name = function.rpartition(".")[2]
    return name if name.endswith("__") else name.rstrip("_")


def is_sum_of_products(call: RecordedCall) -> bool:
    return plain_name(call.function) in _PRODUCTS


def rounds_between(call: RecordedCall, *, gradient: bool) -> bool:
    """Whether a good implementation may round the partial sums of a sum of products to the dtype of the
    result.
    """
    name = plain_name(call.function)
    return name in _COMPOSED or (gradient and name in _ADDED)


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
    """Whether a good kernel may spread the errors of large terms over the result."""
    name = plain_name(call.function)
    return name in _TRANSFORMED or name.startswith("conv_transpose")


# ---- how many


def term_count(call: RecordedCall, inputs: Inputs, output_elements: int) -> int:
    """Terms of one element of the result, from the shapes of the arguments. 1: it is made of one element of
    each argument.
    """
    shapes = [list(tensor.shape) for tensor in tensors_in([inputs.args, inputs.kwargs])]
    if not shapes:
        return 1
    count = _COUNTS.get(plain_name(call.function))
    if count is not None:
        return max(1, count(inputs, shapes, output_elements))
    return _by_elements(inputs, shapes, output_elements)


def term_count_of_gradient(forward: int, output_elements: int, gradient_elements: int) -> int:
    """All products of a sum of products occur in each of its gradients as well, on fewer or more elements."""
    return max(1, forward, math.ceil(forward * output_elements / max(1, gradient_elements)))


def _by_elements(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    return max(1, math.ceil(max(map(math.prod, shapes)) / max(1, output)))


def _last_of(position: int) -> Callable[[Inputs, list[list[int]], int], int]:
    """The last extent of that tensor."""

    def count(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
        shape = shapes[min(position, len(shapes) - 1)]
        return shape[-1] if shape else 1

    return count


def _contraction(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    """Of [m, k] and [k, n] to [m, n] it is k; batches make it larger."""
    product = math.prod(math.prod(shape) for shape in shapes[:2])
    return math.ceil(math.sqrt(product / max(1, output)))


def _chain(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    return max((max(shape) for shape in shapes if shape), default=1) * max(1, len(shapes) - 1)


def _batched_sum(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    shape = shapes[min(1, len(shapes) - 1)]
    return shape[0] * shape[-1] if len(shape) == 3 else 1


def _bilinear(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    return shapes[0][-1] * shapes[1][-1] if len(shapes) > 1 and shapes[0] and shapes[1] else 1


def _kernel(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    weight = shapes[min(1, len(shapes) - 1)]
    return math.prod(weight[1:]) + 1  # and the bias


def _transposed_kernel(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    weight = shapes[min(1, len(shapes) - 1)]
    return math.prod([*weight[:1], *weight[2:]]) + 1


def _extent(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    """That of the argument `dim`, where it is a number, else the largest."""
    shape = shapes[0]
    dim = inputs.kwargs.get("dim", inputs.args[1] if len(inputs.args) > 1 else None)
    if isinstance(dim, int) and not isinstance(dim, bool) and -len(shape) <= dim < len(shape):
        return shape[dim]
    return max(shape, default=1)


def _normalized(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    wanted = inputs.kwargs.get("normalized_shape", inputs.args[1] if len(inputs.args) > 1 else None)
    if isinstance(wanted, (list, tuple)) and all(isinstance(extent, int) for extent in wanted):
        return math.prod(wanted)
    return max(shapes[0], default=1)


def _per_channel(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    shape = shapes[0]
    return math.prod(shape) // max(1, shape[1]) if len(shape) > 1 else 1


def _per_group(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    shape = shapes[0]
    groups = inputs.kwargs.get("num_groups", inputs.args[1] if len(inputs.args) > 1 else 1)
    if not isinstance(groups, int) or len(shape) < 2:
        return 1
    return math.prod(shape[1:]) // max(1, groups)


def _per_norm_group(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    """The argument `group` is the fourth one."""
    groups = inputs.kwargs.get("group", inputs.args[3] if len(inputs.args) > 3 else 1)
    shape = shapes[0]
    return math.prod(shape[1:]) // max(1, groups) if isinstance(groups, int) and len(shape) > 1 else 1


def _attention(inputs: Inputs, shapes: list[list[int]], output: int) -> int:
    """A product over the features of a head, a softmax and a product over the keys."""
    keys = shapes[1] if len(shapes) > 1 else shapes[0]
    return (keys[-1] + keys[-2]) if len(keys) > 1 else 1


_COUNTS: dict[str, Callable[[Inputs, list[list[int]], int], int]] = {
    **dict.fromkeys(
        (
            "matmul", "mm", "bmm", "mv", "dot", "vdot", "vecdot", "inner", "linear", "__matmul__",
            "__rmatmul__", "npu_linear", "npu_rms_norm", "npu_scaled_masked_softmax",
            "npu_moe_gating_top_k_softmax",
        ),
        _last_of(0),
    ),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), _last_of(1)),
    **dict.fromkeys(("einsum", "tensordot"), _contraction),
    **dict.fromkeys(("chain_matmul", "multi_dot", "matrix_power", "matrix_exp"), _chain),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "conv_tbc", "convolution", "_convolution"), _kernel),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _transposed_kernel),
    **dict.fromkeys(
        (
            "softmax", "log_softmax", "softmin", "gumbel_softmax", "normalize", "cumsum", "cumprod",
            "logcumsumexp", "cosine_similarity", "glu", "renorm",
        ),
        _extent,
    ),
    **dict.fromkeys(("layer_norm", "rms_norm", "native_layer_norm", "npu_layer_norm_eval"), _normalized),
    **dict.fromkeys(("batch_norm", "instance_norm", "native_batch_norm"), _per_channel),
    "addbmm": _batched_sum,
    "bilinear": _bilinear,
    "group_norm": _per_group,
    "npu_fusion_attention": _attention,
    "npu_group_norm_silu": _per_norm_group,
    "scaled_dot_product_attention": _attention,
}  # fmt: skip


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
