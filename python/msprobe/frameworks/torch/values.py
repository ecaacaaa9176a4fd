# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch for the native core: where their memory lies, and what else torch gives to a call."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

if TYPE_CHECKING:
    from collections.abc import Iterator

    View = tuple["int | str", str, tuple[int, ...], tuple[int, ...], Any, bool]

_DEEPEST = 50  # of values inside of each other
# Those that the core can measure, without torch's name before them.
_MEASURED = frozenset(
    (
        "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16",
        "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
    )
)  # fmt: skip


def view(tensor: Any) -> View:
    """For _core: address, dtype, shape, strides in elements, owner, whether a gradient is wanted."""
    requires_grad = bool(tensor.requires_grad)
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in _MEASURED:
        return f"has elements of type {dtype}", str(tensor.dtype), _shape(tensor), (), None, requires_grad
    if reason := _unreadable(tensor):
        shape = _shape(tensor)
        return reason, dtype, shape, (0,) * len(shape), None, requires_grad
    memory = plain(tensor)
    address = memory.data_ptr() if memory.numel() > 0 else 0
    return address, dtype, tuple(memory.shape), tuple(memory.stride()), memory, requires_grad


def plain(tensor: Any) -> Any:
    """In memory of the host, without the bits by which torch negates or conjugates what it reads."""
    memory = tensor.detach()
    if memory.is_neg():
        memory = memory.resolve_neg()
    if memory.is_conj():
        memory = memory.resolve_conj()
    return memory if memory.device.type == "cpu" else memory.cpu()


def _shape(tensor: Any) -> tuple[int, ...]:
    return () if tensor.is_nested else tuple(size for size in tensor.shape if isinstance(size, int))


def _unreadable(tensor: Any) -> str:
    """Why there is no memory to read."""
    if tensor.is_meta:
        return "is on the meta device"
    if tensor.layout is not torch.strided:
        return "is sparse"
    if tensor.is_nested:
        return "is nested"
    if type(tensor).__name__ in ("FakeTensor", "FunctionalTensor") or hasattr(tensor, "placements"):
        return f"is a {type(tensor).__name__}"
    return ""


def tensors_of(value: Any, depth: int = 0) -> Iterator[Any]:
    """Those in lists, tuples and dicts, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth <= _DEEPEST and isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_of(item, depth + 1)
    elif depth <= _DEEPEST and isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item, depth + 1)


class TorchValues:
    """What _core.DumpSession asks of a framework (frameworks/port.py), as the native adapter has it."""

    name = "pytorch"
    package = "torch"
    qualifies_dtypes = has_requires_grad = has_recompute = True
    npy = False
    tensor_type: type = torch.Tensor

    view = staticmethod(view)

    def special(self, value: Any, key: str) -> Any:
        if key == "dtype":
            return "torch.dtype", str(value)
        if key == "device":
            place = value if isinstance(value, torch.device) else None
            return "torch.device", str(value) if place is None else f"{place.type}:{place.index}"
        if isinstance(value, torch.Size):
            return list(value)
        if isinstance(value, torch.memory_format):
            return "torch.memory_format", str(value).rpartition(".")[2]
        if isinstance(value, (torch.dtype, torch.device)):
            return {}  # as the format has them elsewhere than under their own keyword
        return _of_distributed(value)


def _of_distributed(value: Any) -> Any:
    if not distributed.is_available():
        return None
    if isinstance(value, distributed.ProcessGroup):
        ranks = distributed.get_process_group_ranks(value)
        group = f"{zlib.crc32(str(ranks).encode()):08x}"
        return {"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": group}
    if isinstance(value, distributed.ReduceOp) or type(value).__name__ == "RedOpType":
        return "torch.distributed.ReduceOp", str(value)
    return None
