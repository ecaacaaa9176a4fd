# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The arguments of a recorded call, made again: from the saved tensors, or from statistics."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.native import FormatError, UnsupportedError, core

if TYPE_CHECKING:
    import torch

_TENSORS = ("torch.Tensor", "torch.nn.parameter.Parameter")
# What the file says is not believed without a bound: a shape costs a few bytes and may ask for all memory.
_MOST_ELEMENTS = 1 << 31
_SEED = 1234


@dataclass(frozen=True)
class ArgumentBuilder:
    """Makes arguments on the CPU. `folder` holds the saved tensors; None: they are made from statistics."""

    folder: str | None
    device: str  # stands for every device that was given as an argument

    def build(self, value: Any) -> Any:
        """Raises FormatError and UnsupportedError for what cannot be made."""
        if isinstance(value, list):
            return [self.build(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        kind = value.get("type")
        if kind is None:
            return {key: self.build(entry) for key, entry in value.items()}
        if kind in _TENSORS:
            return self._tensor(value)
        return self._scalar(str(kind), value)

    def _scalar(self, kind: str, value: dict[str, Any]) -> Any:
        import torch

        if kind == "torch.device":
            return torch.device(self.device)
        if kind == "torch.memory_format":
            return _attribute(str(value.get("format")), torch.memory_format)
        if "value" not in value:
            raise UnsupportedError(f"an argument of type {kind!r} cannot be made again")
        content = value["value"]
        if kind == "torch.dtype":
            return None if content is None else _attribute(str(content), torch.dtype)
        if kind == "torch.Size":
            return torch.Size(content)
        if kind == "slice":
            return slice(*content)
        if kind == "ellipsis":
            return ...
        return content

    def _tensor(self, value: dict[str, Any]) -> torch.Tensor:
        if self.folder is not None and isinstance(value.get("data_name"), str):
            return saved_tensor(self.folder, value["data_name"])
        return tensor_like(value)


def _attribute(name: str, kind: type) -> Any:
    """torch.{name} when it is a `kind`: a dtype, a memory format."""
    import torch

    found = vars(torch).get(name.rpartition(".")[2])
    if not isinstance(found, kind):
        raise FormatError(f"expected a {kind.__name__} of torch, found {name!r}")
    return found


def saved_tensor(folder: str, name: str) -> torch.Tensor:
    """Reads a tensor that the dump has saved; nothing in the file is run."""
    import torch

    if os.path.basename(name) != name or name in (".", ".."):
        raise FormatError(f'"data_name": expected the name of a file, found {name!r}')
    path = os.path.join(folder, name)
    saved = core.read_pt(path)
    if not isinstance(saved, core.PtTensor):
        raise FormatError(f"{path}: expected a tensor")
    _check_size(saved.shape)
    dtype = _attribute(saved.dtype, torch.dtype)
    if math.prod(saved.shape) == 0:
        return torch.empty(saved.shape, dtype=dtype)
    tensor = torch.frombuffer(bytearray(memoryview(saved).tobytes()), dtype=dtype).reshape(saved.shape)
    if saved.conjugate:
        tensor = tensor.conj().resolve_conj()
    return -tensor if saved.negative else tensor


def tensor_like(value: dict[str, Any]) -> torch.Tensor:
    """A tensor with the dtype, shape, minimum (in first place) and maximum (in last place) of a record.
    The same for the same record.
    """
    import torch

    dtype = _attribute(str(value.get("dtype")), torch.dtype)
    shape = value.get("shape")
    if not isinstance(shape, list) or not all(type(extent) is int and extent >= 0 for extent in shape):
        raise FormatError(f'"shape": expected a list of whole numbers, found {shape!r}')
    _check_size(shape)
    if math.prod(shape) == 0:
        return torch.empty(shape, dtype=dtype)
    low, high = _bound(value, "Min"), _bound(value, "Max")
    generator = torch.Generator().manual_seed(_SEED)
    if math.isnan(low) or math.isnan(high):
        return torch.full(shape, math.nan, dtype=torch.float32).to(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return _floats(shape, dtype, low, high, generator)
    if dtype is torch.bool:
        return torch.randint(int(low), int(high) + 1, shape, generator=generator) > 0
    tensor = torch.randint(int(low), int(high) + 1, shape, generator=generator)
    tensor.view(-1)[0], tensor.view(-1)[-1] = int(low), int(high)
    return tensor.to(dtype)


def _floats(
    shape: list[int], dtype: torch.dtype, low: float, high: float, generator: torch.Generator
) -> torch.Tensor:
    import torch

    most = torch.finfo(dtype).max
    finite_low, finite_high = max(min(low, most), -most), max(min(high, most), -most)
    part = torch.rand(shape, dtype=torch.float64, generator=generator)
    tensor = (1 - part) * finite_low + part * finite_high  # no difference of the bounds: it may overflow
    tensor.view(-1)[0], tensor.view(-1)[-1] = low, high
    return tensor.to(dtype)


def _bound(value: dict[str, Any], key: str) -> float:
    bound = value.get(key)
    if not isinstance(bound, (int, float)):
        raise FormatError(f'"{key}": expected a number to make a tensor from, found {bound!r}')
    return float(bound)


def _check_size(shape: list[int] | tuple[int, ...]) -> None:
    if math.prod(shape) > _MOST_ELEMENTS:
        raise UnsupportedError(
            f"a tensor of shape {list(shape)} is too large, expected at most 2^31 elements"
        )
