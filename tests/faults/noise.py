# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that compute something else: all of them a little (another device), or one wrongly (a fault).

Both work where torch dispatches to the kernels, below autograd and below what the debugger records: forward,
backward, recomputation and optimizer alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# What every device does without rounding: moving, choosing, comparing, filling, drawing random numbers.
EXACT = frozenset(
    """
    copy_ _to_copy clone lift_fresh detach alias contiguous _unsafe_view _reshape_copy _reshape_alias
    resize_ set_ empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros
    ones ones_like new_ones full full_like new_full fill_ zero_ fill arange scalar_tensor eye rand
    rand_like randn randn_like randint bernoulli bernoulli_ uniform_ normal_ native_dropout index gather
    scatter scatter_ index_select select_scatter slice_scatter embedding cat stack constant_pad_nd
    slice_backward select_backward masked_fill masked_fill_ where relu relu_ threshold_backward max min
    amax amin maximum minimum topk sort abs neg neg_ sign round floor clamp clamp_ clamp_min clamp_max
    max_pool2d_with_indices flip roll tril triu _local_scalar_dense _pin_memory index_put index_put_
    """.split()  # noqa: SIM905  easier to read than 80 strings
)

# Sums of many terms, which may cancel.
SUMS = frozenset(
    """
    mm addmm bmm baddbmm convolution convolution_backward mkldnn_rnn_layer mkldnn_rnn_layer_backward sum mean
    embedding_dense_backward native_layer_norm_backward native_batch_norm_backward index_add
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
    """.split()  # noqa: SIM905
)


class RoundingNoise(TorchDispatchMode):
    """Every result of a kernel that rounds is off by up to `ulps` units in the last place, at random.

    Sums are off relative to their whole result as well, by a tenth of that, as they are when their terms are
    added in another order. Counters, and other single whole numbers, are exact. The random numbers are drawn
    from a generator of its own.
    """

    def __init__(self, seed: int, ulps: float = 4.0) -> None:
        super().__init__()
        self._ulps = ulps
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        kernel = func.overloadpacket.__name__
        if func.namespace == "aten" and kernel not in EXACT and not _is_view(func):
            with unrecorded():
                for tensor in _tensors(result):
                    self._disturb(tensor, 0.1 if kernel in SUMS else 0.0)
        return result

    def _disturb(self, tensor: torch.Tensor, of_the_whole: float) -> None:
        if not tensor.dtype.is_floating_point or tensor.numel() == 0:
            return
        if tensor.dim() == 0 and float(tensor).is_integer():
            return
        eps = torch.finfo(tensor.dtype).eps * (self._ulps if tensor.dtype == torch.float32 else 1.0)
        exact = tensor.double()
        finite = exact.nan_to_num(0.0, 0.0, 0.0)
        size = finite.abs()
        if of_the_whole:
            whole = finite.square().mean().sqrt().mul(of_the_whole)
            size = size.add(finite.ne(0).mul(whole))
        largest = torch.finfo(tensor.dtype).max  # no kernel that rounds makes an infinity of a mask
        disturbed = exact.add(self._draw(tensor.shape).mul(size).mul(eps))
        tensor.copy_(disturbed.clamp(-largest, largest).where(exact.isfinite(), exact))

    def _draw(self, shape: torch.Size) -> torch.Tensor:
        """Evenly, from -1 to 1."""
        return torch.rand(shape, generator=self._generator, dtype=torch.float64).mul(2).sub(1)


class WrongKernel(TorchDispatchMode):
    """One kernel (`"gelu"`, `"gelu_backward"`) whose result `change` spoils in place.

    `step` None: in every step. `calls`: which calls within a step count, in order; None: all. The training
    says when a step begins, by `begin`.
    """

    def __init__(
        self,
        kernel: str,
        change: Callable[[Any], object],
        *,
        step: int | None = None,
        calls: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        self._kernel = kernel
        self._change = change
        self._step = step
        self._calls = calls
        self._now = -1
        self._count = 0

    def begin(self, step: int) -> None:
        self._now = step
        self._count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ == self._kernel:
            if self._step in (None, self._now) and (self._calls is None or self._count in self._calls):
                with unrecorded():
                    self._change(result)
            self._count += 1
        return result


def unrecorded() -> Any:
    """The debugger does not see what functions and methods compute inside; it does see operators: `x + y`."""
    return torch._C.DisableTorchFunction()


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    return any(item.alias_info is not None and not item.alias_info.is_write for item in returns)


def _tensors(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for item in result:
            yield from _tensors(item)
