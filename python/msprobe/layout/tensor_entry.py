# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Entries of diagnosis.json: which are equal, and what those of shards and summands add up to."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    Entry = dict[str, Any]

_FORM = 2  # docs/formats/dump.md, "Sketch"
_HEAD = struct.Struct("<BQdd8f")
_TAIL = struct.Struct("<ddqqq")
_DIGESTS = 1 << 64


@dataclass(frozen=True)
class Sketch:
    """Of a tensor whose elements are finite."""

    digest: int
    mean: float
    norm: float
    sums: tuple[float, ...]


def is_tensor(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("dtype"), str)


def elements(entry: Entry) -> int:
    """Of a tensor; 0 where its shape is not known."""
    shape = shape_of(entry)
    return 0 if shape is None else math.prod(shape)


def shape_of(entry: Entry) -> list[int] | None:
    shape = entry.get("shape")
    if not isinstance(shape, list) or not all(isinstance(size, int) for size in shape):
        return None
    return shape


def sketch_of(entry: Entry) -> Sketch | None:
    """None: there is none, or one of an earlier form, or of a tensor with elements that are not finite."""
    content = _sketched(entry)
    if len(content) != _HEAD.size:
        return None
    _, digest, mean, norm, *sums = _HEAD.unpack(content)
    return Sketch(digest, mean, norm, tuple(sums))


def digest_of(entry: Entry) -> int | None:
    """Also of a tensor with NaN and infinities."""
    content = _sketched(entry)
    return struct.unpack_from("<Q", content, 1)[0] if content else None


def _sketched(entry: Entry) -> bytes:
    """Empty: there is no sketch of this form."""
    text = entry.get("sketch")
    return _content(text) if isinstance(text, str) else b""


@lru_cache(maxsize=1 << 13)  # an entry is asked several times
def _content(text: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
    known = len(content) in (_HEAD.size, _HEAD.size + _TAIL.size) and content[0] == _FORM
    return content if known else b""


def identity(entry: object) -> Hashable | None:
    """Equal for two entries of one value; None: the entry does not tell."""
    if not isinstance(entry, dict):
        return ("value", repr(entry))
    if not is_tensor(entry):
        return ("value", repr(entry.get("value"))) if "value" in entry else None
    place = (entry["dtype"], str(entry.get("shape")))
    digest = digest_of(entry)
    if digest is not None:
        return (*place, digest)
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
    counts = [elements(part) for part in parts]
    if not parts or sum(counts) != math.prod(shape) + zeros:
        return None
    first = parts[0]
    whole: Entry = {key: first[key] for key in ("requires_grad", "dtype") if key in first}
    whole["shape"] = list(shape)
    full = [part for part, count in zip(parts, counts) if count]
    if any(not isinstance(part.get(name), (int, float)) for part in full for name in ("mean", "norm")):
        return None
    whole["min"] = min((part["min"] for part in full if part.get("min") is not None), default=None)
    whole["max"] = max((part["max"] for part in full if part.get("max") is not None), default=None)
    total = sum(counts) - zeros
    whole["mean"] = (
        math.fsum(part["mean"] * count for part, count in zip(parts, counts) if count) / total
        if total
        else None
    )
    whole["norm"] = math.sqrt(math.fsum(part["norm"] ** 2 for part in full))
    for name in ("nan_count", "pos_inf_count", "neg_inf_count"):
        count = sum(int(part.get(name, 0)) for part in full)
        if count:
            whole[name] = count
    sketches = [sketch_of(part) for part in full]
    placed = all("offset" in part.get("dtensor", {}) for part in full)
    if full and placed and all(sketch is not None for sketch in sketches):
        whole["sketch"] = _text(
            Sketch(
                sum(sketch.digest for sketch in sketches if sketch) % _DIGESTS,
                whole["mean"],
                whole["norm"],
                tuple(math.fsum(sums) for sums in zip(*(sketch.sums for sketch in sketches if sketch))),
            )
        )
    return whole


def added_up(summands: Sequence[Entry]) -> Entry | None:
    """The sum of tensors of one shape: of it only mean and sums of sketches follow from theirs, so it has the
    form of of_sums(). One alone is itself. None: they have no such numbers.
    """
    if len(summands) == 1:
        return summands[0]
    found = [sketch_of(one) for one in summands]
    sketches = [one for one in found if one is not None]
    if len(sketches) < len(summands):
        return None
    sums = tuple(map(math.fsum, zip(*(one.sums for one in sketches))))
    mean = math.fsum(one.mean for one in sketches)
    return _with_sums(summands[0], mean, sums)


def of_sums(entry: Entry) -> Entry:
    """With the numbers alone that a sum of summands has: mean, sums of the sketch, and the norm that these
    make likely (the root mean square of sums with random signs). So both sides of a comparison are known
    equally well.
    """
    sketch = sketch_of(entry)
    if sketch is None:
        return entry
    return _with_sums(entry, sketch.mean, sketch.sums)


def _with_sums(entry: Entry, mean: float, sums: tuple[float, ...]) -> Entry:
    norm = math.sqrt(math.fsum(one * one for one in sums) / len(sums))
    # In the place of a digest: equal where all that is known is equal.
    known = hashlib.blake2b(struct.pack(f"<{1 + len(sums)}d", mean, *sums), digest_size=8).digest()
    sketch = Sketch(int.from_bytes(known, "little"), mean, norm, sums)
    kept = {key: value for key, value in entry.items() if key not in ("crc32", "min", "max")}
    return {**kept, "mean": mean, "norm": norm, "sketch": _text(sketch)}


def _text(sketch: Sketch) -> str:
    try:
        content = _HEAD.pack(_FORM, sketch.digest, sketch.mean, sketch.norm, *sketch.sums)
    except OverflowError:  # beyond a float
        return ""
    return base64.b64encode(content).decode()
