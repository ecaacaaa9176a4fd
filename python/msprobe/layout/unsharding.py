# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of two runs, put together of the parts that ranks and micro-batches have in files (task tensor).

How parts lie side by side is known by their shapes: along one dimension, in a grid of two, or as pieces of
all elements in a row, in the order of the ranks. The values confirm it: where the sums of the wholes are
equal and those of their parts are not, the parts are in another order. One tensor of both runs is in memory
at a time, in its own dtype: files are mapped, parts are copied into their places, and numbers are made of
bits some at a time.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from msprobe.native import core

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np

    Array = np.ndarray[Any, Any]
    Shape = tuple[int, ...]
    Places = list[tuple[slice, ...]]
    """Of each part, in the whole."""


_AT_ONCE = 1 << 16  # elements


def half_the_digits(dtype: str) -> float:
    """The square root of the unit roundoff, more than rounding costs a training that works; 0 of integers."""
    return math.sqrt(core.unit_roundoff(dtype))


def wholes_of(ours: Sequence[Path], theirs: Sequence[Path]) -> tuple[Array, Array, str] | None:
    """Files of the parts of both runs -> the whole of each, in the bits of its dtype. None: how they lie is
    not known, or their dtypes are not one. Raises Error where a file cannot be read.
    """
    import numpy as np

    tensors = [[core.open_tensor(path) for path in paths] for paths in (ours, theirs)]
    dtypes = {tensor.dtype for side in tensors for tensor in side}
    if len(dtypes) != 1:
        return None
    dtype = dtypes.pop()
    ours_read, theirs_read = ([np.asarray(tensor) for tensor in side] for side in tensors)
    best: tuple[float, Shape, tuple[Places, Places]] | None = None
    for shape, places in _candidates(ours_read, theirs_read):
        one, other = _filled(ours_read, places[0], shape), _filled(theirs_read, places[1], shape)
        far = _distance(one, other, dtype)
        if far <= half_the_digits(dtype):
            return one, other, dtype
        if (best is None or far < best[0]) and not _are_moved(one, other, places, dtype):
            best = far, shape, places
        del one, other
    if best is None:
        return None
    _, shape, places = best
    return _filled(ours_read, places[0], shape), _filled(theirs_read, places[1], shape), dtype


def scaled(whole: Array, dtype: str, scale: float) -> Array:
    """In its dtype, too. In the place of a whole that was put together, so that there are not two of it."""
    import numpy as np

    product = whole if whole.flags.owndata else np.empty_like(whole)
    flat, of_product = whole.reshape(-1), product.reshape(-1)
    for begin in range(0, flat.size, _AT_ONCE):
        numbers: Any = _numbers(flat[begin : begin + _AT_ONCE], dtype) * scale
        if dtype == "bfloat16":
            bits = numbers.astype(np.float32).view(np.uint32)
            numbers = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to the nearest, ties to even
        of_product[begin : begin + _AT_ONCE] = numbers
    return product


def _candidates(ours: list[Array], theirs: list[Array]) -> Iterator[tuple[Shape, tuple[Places, Places]]]:
    """Where the parts of both may lie in wholes of one shape."""
    for shape in _shapes(ours, theirs):
        for places in itertools.product(_arrangements(ours, shape), _arrangements(theirs, shape)):
            yield shape, places


def _are_moved(one: Array, other: Array, places: tuple[Places, Places], dtype: str) -> bool:
    """The values speak against the places of the parts; sums of integers and flags say too little."""
    most = half_the_digits(dtype)
    return 0 < most >= _of_sums(one, other, dtype) and any(
        _of_sums(_at(one, at), _at(other, at), dtype) > most for side in places for at in side
    )


def _shapes(ours: list[Array], theirs: list[Array]) -> list[Shape]:
    """Which the whole may have: that of the only part of a run; else those that both may have. Pieces of all
    elements in a row are of any.
    """
    pairs = ((ours, theirs), (theirs, ours))
    sides = [side for side, other in pairs if side[0].ndim > 1 or other[0].ndim < 2]
    for side in sides:
        if len(side) == 1:
            return [side[0].shape]
    found = [{_along(side, dim) for dim in range(side[0].ndim)} for side in sides]
    return sorted(shape for shape in set.intersection(*found) if shape)


def _along(parts: list[Array], dim: int) -> Shape:
    """Of the whole; empty where the parts do not lie side by side along it."""
    first = parts[0].shape
    rest = {(*part.shape[:dim], *part.shape[dim + 1 :]) for part in parts}
    return (*first[:dim], sum(part.shape[dim] for part in parts), *first[dim + 1 :]) if len(rest) == 1 else ()


def _arrangements(parts: list[Array], shape: Shape) -> Iterator[Places]:
    """All that cover the whole; pieces of all elements in a row have places in the flat tensor."""
    if sum(part.size for part in parts) != math.prod(shape):
        return
    if len(parts) == 1:
        if parts[0].shape == shape or parts[0].ndim == 1:
            yield [(slice(None),) * len(shape)]
        return
    if len(shape) > 1 and all(part.ndim == 1 for part in parts):
        yield from _arrangements(parts, (math.prod(shape),))
        return
    for dim in range(len(shape)):
        if _along(parts, dim) == shape:
            ends = list(itertools.accumulate(part.shape[dim] for part in parts))
            pieces = [slice(end - part.shape[dim], end) for part, end in zip(parts, ends)]
            yield [tuple(piece if at == dim else slice(None) for at in range(len(shape))) for piece in pieces]
    yield from _grids(parts, shape)


def _grids(parts: list[Array], shape: Shape) -> Iterator[Places]:
    """Rank by rank along one dimension, then along the other."""
    first = parts[0].shape
    if len(first) != len(shape) or any(part.shape != first for part in parts):
        return
    dims = [dim for dim, (part, whole) in enumerate(zip(first, shape)) if part != whole]
    if len(dims) != 2 or any(shape[dim] % first[dim] for dim in dims):
        return
    for outer, inner in itertools.permutations(dims):
        count = shape[inner] // first[inner]
        grid = [{outer: at // count, inner: at % count} for at in range(len(parts))]
        yield [
            tuple(
                slice(place[dim] * size, (place[dim] + 1) * size) if dim in place else slice(None)
                for dim, size in enumerate(first)
            )
            for place in grid
        ]


def _filled(parts: list[Array], places: Places, shape: Shape) -> Array:
    import numpy as np

    if len(parts) == 1:
        return parts[0].reshape(shape)
    whole = np.empty(shape, parts[0].dtype)
    for part, at in zip(parts, places):
        _at(whole, at)[...] = part
    return whole


def _at(whole: Array, place: tuple[slice, ...]) -> Array:
    """A view; a place of one dimension is one among all elements in a row."""
    return (whole.reshape(-1) if len(place) == 1 else whole)[place]


def _numbers(bits: Array, dtype: str) -> Array:
    import numpy as np

    return (bits.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else bits


def _blocks(one: Array, other: Array, dtype: str) -> Iterator[tuple[Array, Array]]:
    """The numbers of both in float64, some at a time."""
    import numpy as np

    flags = ["external_loop", "buffered", "zerosize_ok"]
    for bits in np.nditer([one, other], flags=flags, buffersize=_AT_ONCE):  # type: ignore[arg-type]
        yield _numbers(bits[0], dtype).astype(np.float64), _numbers(bits[1], dtype).astype(np.float64)


def _distance(one: Array, other: Array, dtype: str) -> float:
    """Relative L2; infinite where it is no number."""
    import numpy as np

    far = size = 0.0
    with np.errstate(invalid="ignore"):  # of two infinities
        for a, b in _blocks(one, other, dtype):
            size += float(b @ b)
            a -= b
            far += float(a @ a)
    if far == 0.0:
        return 0.0
    return math.sqrt(far / size) if size > 0.0 and math.isfinite(far / size) else math.inf


def _of_sums(one: Array, other: Array, dtype: str) -> float:
    """How far norms and extremes are apart, relative to the larger ones."""
    import numpy as np

    if one.size == 0:
        return 0.0
    squares, least, most = np.zeros(2), np.full(2, np.inf), np.full(2, -np.inf)
    for blocks in _blocks(one, other, dtype):
        squares += [block @ block for block in blocks]
        most = np.maximum(most, [block.max() for block in blocks])  # NaN stays
        least = np.minimum(least, [block.min() for block in blocks])
    pairs = [tuple(map(float, pair)) for pair in (np.sqrt(squares), most, least)]
    return max(abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0 for a, b in pairs)
