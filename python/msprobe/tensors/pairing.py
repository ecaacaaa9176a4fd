# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Two tensors next to each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from msprobe.native import core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.tensors.content import Content


@dataclass(frozen=True)
class Paired:
    """What is to be known of two tensors of one shape. `metrics`: as core.compare_tensors() names them."""

    metrics: dict[str, Any]
    cosine: float | None
    """None where one side is all zeros."""
    l2: float
    relative: float
    absolute: float
    """The tolerances: an element is close when |a - b| <= absolute + relative * |b|."""
    not_close: int
    first: list[tuple[int, float, float]]
    """The first elements that are not close: index in C order, a, b."""

    @property
    def equal(self) -> bool:
        return bool(self.metrics["equal_bits"] == self.metrics["count"])


def pair(
    a: Content, b: Content, *, relative: float = 0.001, absolute: float = 0.001, most: int = 20
) -> Paired:
    """Raises InvalidArgument for different shapes."""
    dtypes: Any = {"target_dtype": a.dtype, "reference_dtype": b.dtype}
    metrics = dict(core.compare_tensors(a.memory, b.memory, threads=0, **dtypes))
    count, first = core.differing_elements(
        a.memory, b.memory, relative=relative, absolute=absolute, most=most, **dtypes
    )
    return Paired(metrics, _cosine(metrics), _l2(metrics), relative, absolute, count, first)


def _cosine(metrics: dict[str, Any]) -> float | None:
    if metrics["finite_pairs"] != metrics["count"]:
        return math.nan
    a, b = metrics["target_squares"], metrics["reference_squares"]
    if a == 0 or b == 0:
        return 1.0 if a == b else None
    return float(metrics["dot"] / (math.sqrt(a) * math.sqrt(b)))


def _l2(metrics: dict[str, Any]) -> float:
    return math.nan if metrics["finite_pairs"] != metrics["count"] else math.sqrt(metrics["squared_distance"])


def index_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Where the element with this number in C order is."""
    index: list[int] = []
    for extent in reversed(shape):
        flat, rest = divmod(flat, extent)
        index.append(rest)
    return tuple(reversed(index))
