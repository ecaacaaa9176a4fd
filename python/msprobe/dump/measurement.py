# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Values of a training program as short entries of diagnosis.json (docs/formats/diagnosis.md)."""

from __future__ import annotations

import functools
import json
import types
from typing import TYPE_CHECKING, Any

from msprobe.dump.json_text import Json
from msprobe.native import UnsupportedError, import_torch, torch_adapter
from msprobe.torch_state import OMITTED, memory_of, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST = 20


def measure(tensor: Any, requires_grad: bool | None = None) -> Json:
    """Type, shape, CRC-32 and statistics of a tensor, after `requires_grad` where it is given. What cannot be
    measured has the reason instead.

    Reads memory only: nothing becomes part of the graph. Of a DTensor the shard of this process is measured,
    of a sparse tensor its values.
    """
    members = [] if requires_grad is None else [f'"requires_grad": {json.dumps(requires_grad)}']
    members.append(f'"dtype": {_dtype_text(tensor.dtype)}')
    if _tools().is_lazy(tensor):
        members.append('"unmeasured": "the parameter of a lazy module has no value yet"')
        return _entry(members)
    if not tensor.is_nested:
        members.append(f'"shape": {_shape_text(tensor.shape)}')
    memory, part = memory_of(tensor)
    if part:
        members.append(f'"part": {json.dumps(part)}')
    try:
        members.append(_tools().members(memory))
    except UnsupportedError as error:
        members.append(f'"unmeasured": {json.dumps(str(error))}')
    return _entry(members)


def _entry(members: list[str]) -> Json:
    return Json(f"{{{', '.join(members)}}}")


@functools.lru_cache(maxsize=64)
def _dtype_text(dtype: Any) -> str:
    return json.dumps(str(dtype))


def _shape_text(shape: Any) -> str:
    sizes = list(shape)
    if all(type(size) is int for size in sizes):
        return str(sizes)
    return json.dumps([size if isinstance(size, int) else str(size) for size in sizes])


# Asked for thousands of tensors in a step; finding them takes longer than measuring a small one.
@functools.lru_cache(maxsize=1)
def _tools() -> types.SimpleNamespace:
    import_torch()
    from torch.nn.parameter import is_lazy

    return types.SimpleNamespace(is_lazy=is_lazy, members=torch_adapter().diagnosis_members)


def entries(path: str, value: object, depth: int = 0) -> Iterator[tuple[str, Json]]:
    """Each tensor and each setting in nested lists, tuples and dicts, by its path."""
    import torch

    if isinstance(value, torch.Tensor):
        yield path, measure(value)
    elif isinstance(value, (list, tuple)) and depth < _DEEPEST:
        for index, item in enumerate(value):
            yield from entries(f"{path}.{index}", item, depth + 1)
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, item in value.items():
            name = key if isinstance(key, (str, int)) else type(key).__name__
            yield from entries(f"{path}.{name}", item, depth + 1)
    else:
        short = plain(value)
        found = {"type": type(value).__qualname__} if short is OMITTED else {"value": short}
        yield path, Json(json.dumps(found))
