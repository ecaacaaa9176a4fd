# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One tensor out of a file, whatever the file: its elements stay where they are until they are read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from msprobe.native import FormatError, core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    import os

_BYTES = {"float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4,
          "uint32": 4, "complex32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2}  # fmt: skip


@dataclass(frozen=True)
class Content:
    """`memory`: a buffer of the elements, as the native functions take them."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    memory: Any

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * element_bytes(self.dtype)


def element_bytes(dtype: str) -> int:
    return _BYTES.get(dtype, 1)


def of_host(name: str, tensor: core.HostTensor | core.PtTensor) -> Content:
    return Content(name, tensor.dtype, tuple(tensor.shape), tensor)


def open_tensor_file(path: str | os.PathLike[str]) -> Content:
    """A .npy, or a file of torch.save that holds one tensor. Raises IoError, FormatError."""
    return of_host(str(path), core.open_tensor(path))


def tensors_in(value: Any, name: str = "") -> dict[str, core.PtTensor]:
    """The tensors of what core.read_pt() returns, by the keys that lead to them, joined with dots."""
    found: dict[str, core.PtTensor] = {}
    _collect(value, name, found, 0)
    return found


_DEEPEST = 64


def _collect(value: Any, name: str, found: dict[str, core.PtTensor], depth: int) -> None:
    if depth > _DEEPEST:
        raise FormatError(f"{name[:100]}: expected at most {_DEEPEST} levels of lists and dicts")
    if isinstance(value, core.PtTensor):
        found[name] = value
        return
    if isinstance(value, core.PtObject):
        value = value.entries or value.state
    if isinstance(value, dict):
        entries = [(str(key), entry) for key, entry in value.items()]
    elif isinstance(value, (list, tuple)):
        entries = [_entry(i, entry) for i, entry in enumerate(value)]
    else:
        return
    for key, entry in entries:
        _collect(entry, f"{name}.{key}" if name else key, found, depth + 1)


def _entry(index: int, value: Any) -> tuple[str, Any]:
    """Weights on their way to a rollout are often a list of names and tensors."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return value[0], value[1]
    return str(index), value
