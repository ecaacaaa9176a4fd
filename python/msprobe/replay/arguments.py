# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The arguments of a recorded call, made again: from the saved tensors, or from statistics."""

from __future__ import annotations

import math
import os
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from msprobe.native import FormatError, UnsupportedError, torch_adapter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import torch

    Tensors = str | Mapping[str, torch.Tensor]
    """Where the tensors of records are, by their `data_name`: a folder of a dump, or memory."""

TENSORS = ("torch.Tensor", "torch.nn.parameter.Parameter")
# What the file says is not believed without a bound: a shape costs a few bytes and may ask for all memory.
_MOST_ELEMENTS = 1 << 31
_SEED = 1234

Drawing = Literal["statistics", "range"]


@dataclass
class ArgumentBuilder:
    """Makes the arguments of one call, on the CPU. `seed`: of the tensors that are drawn, text or number;
    equal seeds draw equal tensors.
    """

    folder: Tensors | None
    """Holds the saved tensors; None: all are drawn."""
    device: str
    """Stands for every device that was given as an argument."""
    drawing: Drawing = "statistics"
    """Drawn numbers have the recorded minimum, maximum, mean and norm; or only fill the range evenly."""
    seed: str = ""
    _drawn: int = field(default=0, init=False)

    def build(self, value: Any) -> Any:
        """A tensor has the flag requires_grad of its record. Raises FormatError and UnsupportedError for what
        cannot be made, IoError for a file that cannot be read.
        """
        if isinstance(value, list):
            return [self.build(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        kind = value.get("type")
        if kind is None:
            if not value:
                raise UnsupportedError("a dtype or device that is given by its place is not in the record")
            return {key: self.build(entry) for key, entry in value.items()}
        if kind in TENSORS:
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
        return _complex(content) if kind == "complex" else content

    def _tensor(self, value: dict[str, Any]) -> torch.Tensor:
        if self.folder is not None and isinstance(value.get("data_name"), str):
            tensor = saved_tensor(self.folder, value)
        else:
            self._drawn += 1
            tensor = tensor_like(value, self.drawing, zlib.crc32(f"{self.seed}:{self._drawn}".encode()))
        if value.get("requires_grad") is True and (tensor.is_floating_point() or tensor.is_complex()):
            tensor.requires_grad_()
        return tensor


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of arguments or results, from left to right."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from tensors_in(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from tensors_in(entry)


def records_in(value: Any) -> Iterator[dict[str, Any]]:
    """The records of tensors in a part of a record, from left to right."""
    if isinstance(value, list):
        for entry in value:
            yield from records_in(entry)
    elif isinstance(value, dict):
        if value.get("type") in TENSORS:
            yield value
        elif "type" not in value:
            for entry in value.values():
                yield from records_in(entry)


def dtype_named(name: object) -> torch.dtype:
    """torch.float32 of "torch.float32". Raises FormatError."""
    import torch

    found: torch.dtype = _attribute(str(name), torch.dtype)
    return found


def _attribute(name: str, kind: type) -> Any:
    """torch.{name} when it is a `kind`: a dtype, a memory format."""
    import torch

    found = vars(torch).get(name.rpartition(".")[2])
    if not isinstance(found, kind):
        raise FormatError(f"expected a {kind.__name__} of torch, found {name!r}")
    return found


def _complex(content: object) -> complex:
    try:
        return complex(str(content))
    except ValueError as error:
        raise FormatError(f"expected a complex number, found {content!r}") from error


def saved_tensor(folder: Tensors, value: dict[str, Any]) -> torch.Tensor:
    """Reads the tensor of a record that the dump has saved, with its strides; nothing in the file is run."""
    name = value["data_name"]
    if not isinstance(folder, str):
        return folder[name].detach()
    if os.path.basename(name) != name or name in (".", "..", ""):
        raise FormatError(f'"data_name": expected the name of a file, found {name!r}')
    tensor: torch.Tensor = torch_adapter().load_tensor(os.path.join(folder, name))
    if "dtype" not in value:
        return tensor
    dtype = dtype_named(value["dtype"])
    # mindstudio-probe saves 8-bit floats as float32; a NumPy file has bfloat16 as what NumPy knows.
    return tensor if tensor.dtype is dtype else tensor.to(dtype)


def shape_of(value: dict[str, Any]) -> list[int]:
    """Of the record of a tensor. Raises FormatError, and UnsupportedError above 2^31 elements."""
    shape = value.get("shape")
    if not isinstance(shape, list) or not all(type(extent) is int and extent >= 0 for extent in shape):
        raise FormatError(f'"shape": expected a list of whole numbers, found {shape!r}')
    if math.prod(shape) > _MOST_ELEMENTS:
        raise UnsupportedError(
            f"a tensor of shape {list(shape)} is too large, expected at most 2^31 elements"
        )
    return shape


def tensor_like(value: dict[str, Any], drawing: Drawing = "range", seed: int = _SEED) -> torch.Tensor:
    """A tensor with the dtype, shape, minimum (in first place) and maximum (in last place) of a record, and
    with drawing "statistics" also its mean and norm. The same for the same record and seed.
    """
    import torch

    dtype = dtype_named(value.get("dtype"))
    shape = shape_of(value)
    if math.prod(shape) == 0:
        return torch.empty(shape, dtype=dtype)
    if dtype is torch.bool:
        return _bools(shape, _bound(value, "Min"), _bound(value, "Max"), seed)
    low, high = _bound(value, "Min"), _bound(value, "Max")
    if not (dtype.is_floating_point or dtype.is_complex):
        return _numbers(value, shape, low, high, drawing, seed).round_().to(dtype)
    finite_low = _finite_bound(value, "Min_except_inf_nan", low, dtype)
    finite_high = _finite_bound(value, "Max_except_inf_nan", high, dtype)
    if math.isnan(finite_low) or math.isnan(finite_high):
        return torch.full(shape, math.nan, dtype=torch.float32).to(dtype)
    tensor = _numbers(value, shape, finite_low, finite_high, drawing, seed)
    if dtype.is_complex:  # the statistics are those of absolute values
        return torch.polar(tensor, _angles(shape, seed)).to(dtype)
    flat = tensor.view(-1)
    if math.isnan(high):
        flat[1 if len(flat) > 2 else 0] = math.nan
    elif math.isinf(high):
        flat[-1] = high
    if math.isinf(low):
        flat[0] = low
    return tensor.to(dtype)


def _numbers(
    value: dict[str, Any], shape: list[int], low: float, high: float, drawing: Drawing, seed: int
) -> torch.Tensor:
    """In float64."""
    if low > high:
        raise FormatError(f'"Min", "Max": expected them in order, found {low} and {high}')
    mean, norm = (value.get(key) for key in ("Mean", "Norm"))
    by_statistics = drawing == "statistics" and _is_number(mean) and _is_number(norm)
    drawn: torch.Tensor = torch_adapter().draw(
        shape,
        min=low,
        max=high,
        mean=float(mean) if by_statistics else None,  # type: ignore[arg-type]
        norm=float(norm) if by_statistics else None,  # type: ignore[arg-type]
        seed=seed,
    )
    return drawn


def _angles(shape: list[int], seed: int) -> torch.Tensor:
    angles: torch.Tensor = torch_adapter().draw(shape, min=-math.pi, max=math.pi, seed=seed + 1)
    return angles


def _bools(shape: list[int], low: float, high: float, seed: int) -> torch.Tensor:
    import torch

    if low == high:
        return torch.full(shape, bool(low))
    drawn: torch.Tensor = torch_adapter().draw(shape, min=0, max=1, seed=seed)
    return drawn >= 0.5


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _bound(value: dict[str, Any], key: str) -> float:
    bound = value.get(key)
    if not isinstance(bound, (int, float)):
        raise FormatError(f'"{key}": expected a number to make a tensor from, found {bound!r}')
    return float(bound)


def _finite_bound(value: dict[str, Any], key: str, bound: float, dtype: torch.dtype) -> float:
    """The bound of the finite numbers, where older files have it, else `bound` within the range of the
    dtype.
    """
    import torch

    if isinstance(value.get(key), (int, float)):
        bound = float(value[key])
    most = torch.finfo(dtype).max
    return bound if math.isnan(bound) else max(min(bound, most), -most)
