# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Entries of diagnosis.json: which are equal, and what those of shards and summands add up to."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from msprobe.native import core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    Entry = dict[str, Any]


_ADDRESSES = 1 << 48  # no tensor has more elements: the addresses of a processor


def is_tensor(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("dtype"), str)


def elements(entry: Entry) -> int:
    """Of a tensor; 0 where its shape is not known."""
    shape = shape_of(entry)
    return 0 if shape is None else math.prod(shape)


def shape_of(entry: Entry) -> list[int] | None:
    shape = entry.get("shape")
    if not isinstance(shape, list) or not all(isinstance(size, int) and size >= 0 for size in shape):
        return None
    return shape if math.prod(shape) < _ADDRESSES else None


def sketch_of(entry: Entry) -> dict[str, Any] | None:
    """digest, mean and norm of the finite elements, sums, is_finite. None: none of this form is there."""
    text = entry.get("sketch")
    return _sketch(text) if isinstance(text, str) else None


@lru_cache(maxsize=1 << 13)  # an entry is asked several times
def _sketch(text: str) -> dict[str, Any] | None:
    return core.read_sketch(text)


def identity(entry: object) -> Hashable | None:
    """Equal for two entries of one value; None: the entry does not tell."""
    if not isinstance(entry, dict):
        return ("value", repr(entry))
    if not is_tensor(entry):
        return ("value", repr(entry.get("value"))) if "value" in entry else None
    place = (entry["dtype"], str(entry.get("shape")))
    sketch = sketch_of(entry)
    if sketch is not None:
        return (*place, sketch["digest"])
    checksum = entry.get("crc32")
    if isinstance(checksum, str):
        return (*place, checksum)
    return None


OTHER_FORMS = "its ranks recorded it in forms that cannot be compared, as other versions of msprobe do"


def are_of_one_form(entries: Sequence[object]) -> bool:
    """False: of some tensors a sketch is known, of others a checksum or nothing, which cannot be equal."""
    known = [identity(one) for one in entries if isinstance(one, dict) and is_tensor(one) and elements(one)]
    return len({type(one[-1]) if isinstance(one, tuple) else None for one in known}) < 2


def is_constant(entry: object) -> bool:
    """Of one number only, as ones and zeros at the start: equal ones say nothing of how they lie."""
    return isinstance(entry, dict) and entry.get("min") is not None and entry.get("min") == entry.get("max")


def added(parts: Sequence[Entry], shape: Sequence[int], zeros: int = 0) -> Entry | None:
    """The whole of shape `shape` of its shards, which are disjoint. None where they do not cover it. zeros:
    how many elements of the shards are no part of it.

    Sketches are there where all shards have one that was taken at their places in the whole.
    """
    counted = _counted(parts)
    numbers = core.joined(
        counted,
        min(math.prod(shape), _ADDRESSES),
        padding=zeros,
        integers=bool(parts) and "int" in str(parts[0].get("dtype")),
        is_placed=all("offset" in part.get("dtensor", {}) for part, count in counted if count),
    )
    if numbers is None:
        return None
    kept: Entry = {key: parts[0][key] for key in ("requires_grad", "dtype") if key in parts[0]}
    return {**kept, "shape": list(shape), **numbers}


def added_up(summands: Sequence[Entry]) -> Entry | None:
    """The sum of tensors of one shape: of it only mean and sums of sketches follow from theirs, so it has the
    form of of_sums(). One alone is itself. None: they have no such numbers.
    """
    return summands[0] if len(summands) == 1 else _sum(summands)


def of_sums(entry: Entry) -> Entry:
    """With the numbers alone that a sum of summands has: mean, sums of the sketch, and the norm that these
    make likely. So both sides of a comparison are known equally well.
    """
    return _sum([entry]) or entry


def _sum(summands: Sequence[Entry]) -> Entry | None:
    numbers = core.added_up(_counted(summands))
    kept = {key: value for key, value in summands[0].items() if key not in ("crc32", "min", "max")}
    return None if numbers is None else {**kept, **numbers}


def _counted(entries: Sequence[Entry]) -> list[tuple[Entry, int]]:
    return [(entry, elements(entry)) for entry in entries]
