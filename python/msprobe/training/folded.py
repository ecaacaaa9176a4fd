# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Reductions in a fixed order: SUM and AVG of floating-point tensors as an all-gather, and then a sum in the
order of the ranks, whatever the back end does. So a training of n ranks adds up gradients as one process does
that accumulates n micro-batches, to the bit.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Of torch.distributed; releases differ in which they have.
_SCATTERS = ("reduce_scatter_single", "reduce_scatter_tensor")


def fold_reductions() -> None:
    """From now on, in this process: of all_reduce and reduce_scatter of torch.distributed, and of
    DistributedDataParallel where the program gives it no hook of its own. What C++ reduces by itself, as the
    functional collectives of tensor parallelism, stays as it is. Does nothing where torch has no
    torch.distributed.
    """
    from torch import distributed

    if not distributed.is_available():
        return
    distributed.all_reduce = _all_reduce(distributed.all_reduce)
    for name in _SCATTERS:
        if hasattr(distributed, name):
            setattr(distributed, name, _reduce_scatter(getattr(distributed, name)))
    _fold_data_parallel()


def _all_reduce(original: Callable[..., Any]) -> Callable[..., Any]:
    from torch.distributed import ReduceOp

    @functools.wraps(original)
    def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        if not _is_folded(tensor, op, group):
            return original(tensor, op, group, async_op)
        total, work = _fold(tensor, op, group)
        tensor.detach().copy_(total)
        return work if async_op else None

    return all_reduce


def _reduce_scatter(original: Callable[..., Any]) -> Callable[..., Any]:
    from torch.distributed import ReduceOp

    @functools.wraps(original)
    def reduce_scatter(
        output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        from torch import distributed

        if not _is_folded(input, op, group):
            return original(output, input, op, group, async_op)
        total, work = _fold(input, op, group)
        place = distributed.get_rank(group)
        part = total.reshape(-1)[place * output.numel() : (place + 1) * output.numel()]
        output.detach().copy_(part.view(output.shape))
        return work if async_op else None

    return reduce_scatter


def _is_folded(tensor: Any, op: Any, group: Any) -> bool:
    from torch.distributed import ReduceOp, get_world_size

    is_sum = op in (ReduceOp.SUM, ReduceOp.AVG)
    return bool(is_sum and tensor.is_floating_point() and get_world_size(group) > 1)  # -1: not a member


def _fold(tensor: Any, op: Any, group: Any) -> tuple[Any, Any]:
    """The sum over all ranks of the group, beginning with the first; and the handle of what is complete."""
    import torch
    from torch import distributed

    own = tensor.detach().contiguous()
    parts = [torch.empty_like(own) for _ in range(distributed.get_world_size(group))]
    work = distributed.all_gather(parts, own, group=group, async_op=True)
    work.wait()
    total = parts[0]
    for part in parts[1:]:
        total += part
    if op == distributed.ReduceOp.AVG:
        total /= len(parts)
    return total, work


def _fold_data_parallel() -> None:
    """By a hook, before the first forward: the program may give one of its own until then."""
    from torch.nn.parallel import DistributedDataParallel

    original: Any = DistributedDataParallel.forward

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(self, "_comm_hooks", ()) and not self.__dict__.get("_msprobe_folds"):
            self.__dict__["_msprobe_folds"] = True
            self.register_comm_hook(self.process_group, _hook_of_bucket)
        return original(self, *args, **kwargs)

    DistributedDataParallel.forward = forward  # type: ignore[method-assign]


def _hook_of_bucket(group, bucket):  # type: ignore[no-untyped-def]  # torch compares annotations with its own
    """Divides first, as DistributedDataParallel does."""
    import torch
    from torch.distributed import ReduceOp

    gradient = bucket.buffer()
    total, _ = _fold(gradient / group.size(), ReduceOp.SUM, group)
    done: Any = torch.futures.Future()
    done.set_result(total)
    return done
