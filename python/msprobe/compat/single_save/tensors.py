# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of a framework as memory that the native writer reads."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Buffer

FRAMEWORKS = ("pytorch", "mindspore")

# What NumPy has no dtype for, as integers of the same size.
_AS_INTEGERS = {
    "bfloat16": "int16",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
}


def is_tensor(value: object, framework: str) -> bool:
    """A tensor of the framework, or a NumPy array of numbers."""
    module = sys.modules.get("torch" if framework == "pytorch" else "mindspore")
    if module is not None and isinstance(value, module.Tensor):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "fiubc"


def memory_of(value: Any, framework: str) -> tuple[Buffer, str | None]:
    """The elements on the host, and the name of their dtype where the buffer cannot tell it. Shares the
    memory of the tensor where it can. Whoever watches the calls of the training does not see this.
    """
    if not hasattr(value, "asnumpy") and not hasattr(value, "detach"):
        return value, None  # an array of NumPy
    return _of_torch(value) if framework == "pytorch" else _of_mindspore(value)


def _of_torch(tensor: Any) -> tuple[Buffer, str | None]:
    import torch

    disabled: Any = torch._C.DisableTorchFunction
    with disabled(), torch.no_grad():
        host = tensor.detach()
        if hasattr(host, "placements") and hasattr(host, "to_local"):  # a DTensor
            host = host.to_local()
        if host.layout is not torch.strided:
            host = host.to_dense()
        if host.is_quantized:
            host = host.dequantize()
        host = host.cpu().resolve_conj().resolve_neg()
        name = str(host.dtype).rpartition(".")[2]
        if name == "complex32":
            return host.to(torch.complex64).numpy(), None
        integers = _AS_INTEGERS.get(name)
        if integers is None:
            return host.numpy(), None
        return host.view(getattr(torch, integers)).numpy(), name


def _of_mindspore(tensor: Any) -> tuple[Buffer, str | None]:
    dtype = getattr(tensor, "dtype", None)
    if str(dtype).startswith(("BFloat16", "Float8")):  # asnumpy() has no form for them
        tensor = tensor.astype(sys.modules["mindspore"].float32)
    return tensor.asnumpy(), None


def rank_of_process(framework: str) -> int:
    """That of the process group; 0 without one."""
    if framework == "pytorch":
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        return 0
    communication = sys.modules.get("mindspore.communication")
    if communication is not None and communication.GlobalComm.INITED:
        return int(communication.get_rank())
    return 0
