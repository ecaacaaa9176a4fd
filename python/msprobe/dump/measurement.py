# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Values of a training program as short entries of diagnosis.json (docs/formats/diagnosis.md)."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from msprobe.native import UnsupportedError, torch_adapter
from msprobe.torch_state import OMITTED, memory_of, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    Entry = dict[str, Any]

_STATISTICS = ("min", "max", "mean", "norm")
_RARE_COUNTS = ("nan_count", "pos_inf_count", "neg_inf_count")
_DEEPEST = 20


def measure(tensor: Any) -> Entry:
    """Type, shape, CRC-32 and statistics of a tensor. What cannot be measured has the reason instead.

    Reads memory only: nothing becomes part of the graph. Of a DTensor the shard of this process is measured,
    of a sparse tensor its values.
    """
    from torch.nn.parameter import is_lazy

    entry: Entry = {"dtype": str(tensor.dtype)}
    if is_lazy(tensor):
        return {**entry, "unmeasured": "the parameter of a lazy module has no value yet"}
    if not tensor.is_nested:
        entry["shape"] = [size if isinstance(size, int) else str(size) for size in tensor.shape]
    memory, part = memory_of(tensor)
    if part:
        entry["part"] = part
    try:
        summary = _adapter().summarize(memory, checksum="native")
    except UnsupportedError as error:
        return {**entry, "unmeasured": str(error)}
    if summary["crc32"] is not None:
        entry["crc32"] = f"{summary['crc32']:08x}"
    for name in _STATISTICS:
        entry[name] = summary[name]
    if summary["mean_imag"] is not None:
        entry["mean_imag"] = summary["mean_imag"]
    for name in _RARE_COUNTS:
        if summary[name]:
            entry[name] = summary[name]
    return entry


# Asked for thousands of tensors in a step; finding it takes longer than measuring a small one.
@functools.lru_cache(maxsize=1)
def _adapter() -> types.ModuleType:
    return torch_adapter()


def entries(path: str, value: object, depth: int = 0) -> Iterator[tuple[str, Entry]]:
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
        yield path, {"type": type(value).__qualname__} if short is OMITTED else {"value": short}
