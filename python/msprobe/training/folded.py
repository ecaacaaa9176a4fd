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
_LEFT = ("reduce", "reduce_scatter", "all_reduce_coalesced")
# Of DTensor: tensor parallelism.
_LEFT_FUNCTIONAL = (
    "all_reduce", "all_reduce_coalesced", *_SCATTERS, *(f"{name}_autograd" for name in _SCATTERS),
)  # fmt: skip
_NOT_FOLDED = "is not folded: what it adds up is in the order of the back end"


def fold_reductions(say: Callable[[str], None]) -> None:
    """From now on, in this process: of all_reduce and reduce_scatter of torch.distributed, and of
    DistributedDataParallel where the program gives it no hook of its own. Does nothing where torch has no
    torch.distributed.

    say: is told, once each, what was asked for and cannot be folded: the back end does that as it does.
    """
    from torch import distributed

    if not distributed.is_available():
        return
    once = functools.lru_cache(maxsize=None)(say)
    distributed.all_reduce = _all_reduce(distributed.all_reduce, once)
    for name in _SCATTERS:
        if hasattr(distributed, name):
            setattr(distributed, name, _reduce_scatter(getattr(distributed, name), once))
    from torch.distributed import _functional_collectives

    for holder, names in ((distributed, _LEFT), (_functional_collectives, _LEFT_FUNCTIONAL)):
        for name in names:
            if hasattr(holder, name):
                setattr(holder, name, _left(getattr(holder, name), once))
    _fold_data_parallel(once)


def _left(original: Callable[..., Any], say: Callable[[str], None]) -> Callable[..., Any]:
    from torch import compiler

    @functools.wraps(original)
    def left(*args: Any, **kwargs: Any) -> Any:
        if not compiler.is_compiling():
            say(f"{original.__name__} of {original.__module__} {_NOT_FOLDED}")
        return original(*args, **kwargs)

    return left


def _all_reduce(original: Callable[..., Any], say: Callable[[str], None]) -> Callable[..., Any]:
    from torch.distributed import ReduceOp

    @functools.wraps(original)
    def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
        total = _folded(tensor, op, group, say)
        if total is None:
            return original(tensor, op, group, async_op)
        return _done(tensor.detach().copy_(total), async_op)

    return all_reduce


def _reduce_scatter(original: Callable[..., Any], say: Callable[[str], None]) -> Callable[..., Any]:
    from torch.distributed import ReduceOp

    @functools.wraps(original)
    def reduce_scatter(
        output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        from torch import distributed

        total = _folded(input, op, group, say)
        if total is None:
            return original(output, input, op, group, async_op)
        place = distributed.get_rank(group)
        part = total.reshape(-1)[place * output.numel() : (place + 1) * output.numel()]
        return _done(output.detach().copy_(part.view(output.shape)), async_op)

    return reduce_scatter


def _folded(tensor: Any, op: Any, group: Any, say: Callable[[str], None]) -> Any:
    """The sum over all ranks of the group, beginning with the first. None: the back end reduces, as the order
    is nothing to it (the largest, integers, one rank), or as it cannot be asked for the parts, which is said.
    """
    import torch
    from torch import distributed
    from torch.distributed import ReduceOp

    def is_one_of(*operations: Any) -> bool:  # an operation with a factor tells itself, when asked first
        return any(op == one for one in operations)

    ranks = distributed.get_world_size(group)  # -1: not a member
    is_rounded = tensor.is_floating_point() or tensor.is_complex()
    if ranks < 2 or not is_rounded or is_one_of(ReduceOp.MAX, ReduceOp.MIN):
        return None
    if not is_one_of(ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM):
        say(f"a reduction that is no sum {_NOT_FOLDED}")
        return None
    own = tensor.detach().contiguous()
    if op == ReduceOp.PREMUL_SUM:  # the operation, and what each rank multiplies with first
        own = own * op.__getstate__()[1]
    parts = [torch.empty_like(own) for _ in range(ranks)]

    def cannot_gather(why: str) -> None:
        say(f"back end {distributed.get_backend(group)}: cannot gather ({why}): a sum {_NOT_FOLDED}")

    if _is_put_off(group):
        return cannot_gather("several collectives are put together to one")
    try:
        distributed.all_gather(parts, own, group=group)
    except torch.OutOfMemoryError:  # on this rank alone
        raise
    except RuntimeError as error:  # where the job is at its end, what the back end does next says so
        return cannot_gather(str(error).partition("\n")[0][:200])
    total = parts[0]
    for part in parts[1:]:
        total += part
    if op == ReduceOp.AVG:
        total /= ranks
    return total


def _is_put_off(group: Any) -> bool:
    """Inside of torch.distributed's _coalescing_manager nothing is there before its end."""
    from torch.distributed import distributed_c10d as c10d

    state = getattr(getattr(c10d, "_world", None), "pg_coalesce_state", None) or {}
    return (group or c10d.group.WORLD) in state


def _done(tensor: Any, async_op: bool) -> Any:
    """The handle of a collective that has filled the tensor."""
    from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]

    return _create_work_from_future(_future([tensor])) if async_op else None


def _future(value: Any) -> Any:
    import torch

    tensor = value[0] if isinstance(value, list) else value
    future: Any = torch.futures.Future(devices=None if tensor.is_cpu else [tensor.device])
    future.set_result(value)
    return future


def _fold_data_parallel(say: Callable[[str], None]) -> None:
    """By a hook, before the first forward: the program may give one of its own until then. What that reduces
    by torch.distributed is folded there.
    """
    from torch.nn.parallel import DistributedDataParallel

    original: Any = DistributedDataParallel.forward

    # torch compares annotations of a hook with its own.
    def hook_of_bucket(group, bucket):  # type: ignore[no-untyped-def]
        """Divides first, as DistributedDataParallel does."""
        from torch import distributed

        gradient = bucket.buffer().div_(group.size())
        distributed.all_reduce(gradient, group=group)
        return _future(gradient)

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(self, "_comm_hooks", ()) and not self.__dict__.get("_msprobe_folds"):
            self.__dict__["_msprobe_folds"] = True
            try:
                self.register_comm_hook(self.process_group, hook_of_bucket)
            except RuntimeError:  # one of C++ is there
                say(f"DistributedDataParallel with a hook of C++ {_NOT_FOLDED}")
        return original(self, *args, **kwargs)

    DistributedDataParallel.forward = forward  # type: ignore[method-assign]
