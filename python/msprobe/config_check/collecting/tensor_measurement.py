# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Statistics and fingerprints of the tensors that a pack holds."""

from __future__ import annotations

import hashlib
import math
import os
import struct
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from msprobe.native import UnsupportedError, torch_adapter
from msprobe.training.measurement import described
from msprobe.training.model_parts import named_parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CHECKSUMS = ("crc32", "md5")

_DEEPEST = 10  # lists in lists; what lies deeper is left out


@dataclass(frozen=True)
class Measured:
    """statistics: as mindstudio-probe prints them, None for a tensor that has none. fingerprint: type, shape
    and checksum.
    """

    statistics: dict[str, float] | None
    fingerprint: dict[str, Any]


def measure_all(tensors: Sequence[Any], checksum: str, *, in_float32: bool) -> list[Measured]:
    """Measures on all cores. in_float32: statistics of half precision are not rounded to it.

    checksum: "crc32" of the elements, in the pass of the statistics; or "md5", which takes ten times as long.
    Tensors of a device are copied to the host for it, a few at a time.
    """
    found: list[Measured | None] = [None] * len(tensors)
    if checksum == "crc32":
        threads = len(os.sched_getaffinity(0))
        at_once = torch_adapter().pack_tensors(list(tensors), in_float32=in_float32, threads=threads)
        found = [None if one is None else Measured(*one) for one in at_once]
    others = [i for i, one in enumerate(found) if one is None]
    for i, one in zip(others, _measure_each([tensors[i] for i in others], checksum, in_float32)):
        found[i] = one
    return [one for one in found if one is not None]


def _measure_each(tensors: Sequence[Any], checksum: str, in_float32: bool) -> list[Measured]:
    """For md5, and for all that is no plain tensor in memory."""
    threads = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(threads) as pool:
        found: list[Measured] = []
        for first in range(0, len(tensors), 2 * threads):  # so many copies of a device's tensors at once
            prepared = [_prepared(tensor) for tensor in tensors[first : first + 2 * threads]]
            found += pool.map(lambda one: _measure(one, checksum, in_float32), prepared)
    return found


@dataclass
class _Prepared:
    """What can be measured of a tensor; `memory` is None when nothing can."""

    memory: Any
    dtype: Any
    fingerprint: dict[str, Any]


def _prepared(tensor: Any) -> _Prepared:
    """On the thread of the training: a copy from a device comes after what that thread began there."""
    import torch

    with torch.no_grad():
        try:
            fingerprint, memory = described(tensor)
            return _Prepared(None if memory is None else memory.detach().cpu(), tensor.dtype, fingerprint)
        except (RuntimeError, NotImplementedError) as error:
            fingerprint = {"dtype": str(tensor.dtype), "unmeasured": str(error)}
            if not tensor.is_nested:
                fingerprint["shape"] = list(tensor.shape)
            return _Prepared(None, tensor.dtype, fingerprint)


def _measure(tensor: _Prepared, checksum: str, in_float32: bool) -> Measured:
    import torch

    fingerprint = tensor.fingerprint
    if tensor.memory is None:
        return Measured(None, fingerprint)
    native = checksum == "crc32"
    try:
        summary = torch_adapter().summarize(tensor.memory, checksum="native" if native else "none")
        if native and summary["crc32"] is not None:
            fingerprint["crc32"] = f"{summary['crc32']:08x}"
        elif not native:
            fingerprint["md5"] = _md5(tensor.memory)
    except (UnsupportedError, RuntimeError, NotImplementedError) as error:
        fingerprint["unmeasured"] = str(error)
        return Measured(None, fingerprint)
    if not summary["count"] or summary["max"] is None or summary["mean_imag"] is not None:
        return Measured(None, fingerprint)
    keeps_type = not in_float32 and tensor.dtype in (torch.float16, torch.bfloat16)
    return Measured(
        {
            name: _rounded(summary[name], tensor.dtype if keeps_type else None)
            for name in ("max", "min", "mean", "norm")
        },
        fingerprint,
    )


def _rounded(value: float, dtype: Any) -> float:
    """To the type that mindstudio-probe computes in: `dtype`, else float32."""
    if dtype is not None:
        import torch

        return float(torch.tensor(value, dtype=dtype).item())
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _md5(memory: Any) -> str:
    """Of the elements in their order. Releases the GIL while it computes."""
    import ctypes

    flat = memory.contiguous()
    size = flat.numel() * flat.element_size()
    content = (ctypes.c_char * size).from_address(flat.data_ptr()) if size else b""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


# ---- inputs


@dataclass
class _Slot:
    """Where the statistics of a tensor go."""

    owner: dict[str, Any]
    key: str
    tag: str


def measure_inputs(args: tuple[Any, ...], kwargs: dict[str, Any], checksum: str) -> tuple[Any, Any]:
    """The tree of a dataset entry, and the fingerprints of its tensors by their keys joined with dots."""
    tree: dict[str, Any] = {}
    slots: list[_Slot] = []
    tensors: list[Any] = []
    for name, value in (("args", args), ("kwargs", kwargs)):
        _walk(_Slot(tree, name, name), value, 0, slots, tensors)
    fingerprints = {}
    for slot, measured in zip(slots, measure_all(tensors, checksum, in_float32=False)):
        slot.owner[slot.key] = "" if measured.statistics is None else measured.statistics
        fingerprints[slot.tag] = measured.fingerprint
    return tree, fingerprints


def _walk(slot: _Slot, value: Any, depth: int, slots: list[_Slot], tensors: list[Any]) -> None:
    import torch

    slot.owner[slot.key] = ""
    if isinstance(value, torch.Tensor):
        slots.append(slot)
        tensors.append(value)
        return
    members = _members(value) if depth < _DEEPEST else None
    if members is None:
        return
    node: dict[str, Any] = {}
    slot.owner[slot.key] = node
    for key, item in members:
        _walk(_Slot(node, str(key), f"{slot.tag}.{key}"), item, depth + 1, slots, tensors)


def _members(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """What lists, mappings (as a tokenizer returns them) and data classes hold. None: no container."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    if is_dataclass(value) and not isinstance(value, type):
        return [(one.name, getattr(value, one.name, None)) for one in fields(value)]
    return None


def measure_weights(model: Any, checksum: str) -> tuple[Any, Any]:
    """Statistics and fingerprints of all parameters by name."""
    named = dict(named_parameters(model))
    measured = dict(zip(named, measure_all(list(named.values()), checksum, in_float32=True)))
    statistics = {name: one.statistics for name, one in measured.items() if one.statistics is not None}
    return statistics, {name: one.fingerprint for name, one in measured.items()}
