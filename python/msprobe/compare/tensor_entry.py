# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Distances of what diagnosis.json tells of tensors and values (docs/formats/diagnosis.md)."""

from __future__ import annotations

import math

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_EPSILON = {
    "torch.float32": 2.0**-23,
    "torch.float64": 2.0**-52,
    "torch.bfloat16": 2.0**-7,
    "torch.float16": 2.0**-10,
    "torch.complex64": 2.0**-23,
    "torch.complex128": 2.0**-52,
    "torch.float8_e4m3fn": 2.0**-3,
    "torch.float8_e5m2": 2.0**-2,
}


def is_tensor(entry: Any) -> bool:
    return isinstance(entry, dict) and "dtype" in entry


def distance(left: Any, right: Any, floor: float = 0.0) -> float:
    """In rounding errors, see Finding. 0: nothing that was recorded differs. `floor`: elements are measured
    against this size at least.
    """
    if is_tensor(left) and is_tensor(right):
        return _tensor_distance(left, right, floor)
    return 0.0 if same_value(left, right) else math.inf


def same_value(left: Any, right: Any) -> bool:
    """Equality in which NaN equals NaN."""
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right):
        return True
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_value, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_value(left[key], right[key]) for key in left)
    return bool(left == right)


def show(entry: Any) -> str:
    """A value for a sentence."""
    if isinstance(entry, dict) and set(entry) == {"value"}:
        entry = entry["value"]
    if is_tensor(entry):
        return f"{entry['dtype']} {entry.get('shape', '')}"
    text = str(entry)
    return text if len(text) <= 80 else text[:77] + "..."


def negligible(entries: Iterable[Any]) -> float:
    """A tenth of the size of a typical element of tensors that belong together, such as all gradients: much
    smaller ones are what rounding leaves where the exact result is zero.
    """
    sizes: list[float] = []
    for entry in entries:
        if is_tensor(entry) and entry.get("norm") and math.isfinite(entry["norm"]):
            count = math.prod(extent for extent in entry.get("shape", []) if isinstance(extent, int))
            sizes.append(entry["norm"] / math.sqrt(max(count, 1)))
    if not sizes:
        return 0.0
    import statistics  # here, because it takes long to load

    return 0.1 * statistics.median(sizes)


def metrics(left: Any, right: Any) -> dict[str, object]:
    """The numbers of both sides, for the answer."""
    if not (is_tensor(left) and is_tensor(right)):
        return {"target": show(left), "golden": show(right)}
    shown = [key for key in ("min", "max", "mean", "norm") if key in left or key in right]
    return {key: [left.get(key), right.get(key)] for key in shown}


def _tensor_distance(left: dict[str, Any], right: dict[str, Any], floor: float) -> float:
    if left.get("shape") != right.get("shape"):
        return math.inf
    if "crc32" in left and "crc32" in right and left["dtype"] == right["dtype"]:
        if left["crc32"] == right["crc32"]:
            return 0.0
    elif left.get("crc32") == right.get("crc32") and left["dtype"] == right["dtype"]:
        return 0.0  # no elements, or nothing could be measured
    if left["dtype"] not in _EPSILON or right["dtype"] not in _EPSILON:
        return math.inf
    epsilon = max(_EPSILON[left["dtype"]], _EPSILON[right["dtype"]])
    count = math.prod(extent for extent in left.get("shape", []) if isinstance(extent, int))
    return max(_apart(left, right, count, floor) / epsilon, 0.01)  # checksums that differ: not nothing


def _apart(left: dict[str, Any], right: dict[str, Any], count: int, floor: float) -> float:
    values = [(left.get(key), right.get(key)) for key in ("max", "min", "mean", "norm")]
    root = math.sqrt(max(count, 1))
    extreme = max(_largest([*values[0], *values[1]]), floor)
    norm = max(_largest(values[3]), floor * root)
    typical = norm / root if norm > 0 else extreme
    scales = (extreme, extreme, typical, norm)
    return max(_relative(a, b, scale) for (a, b), scale in zip(values, scales))


def _largest(values: Any) -> float:
    return max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)


def _relative(left: float | None, right: float | None, scale: float) -> float:
    if left is None or right is None:
        return 0.0 if left is right else math.inf
    if left == right or (math.isnan(left) and math.isnan(right)):
        return 0.0
    if not (math.isfinite(left) and math.isfinite(right)):
        return math.inf
    return abs(left - right) / max(scale, 2.2250738585072014e-308)
