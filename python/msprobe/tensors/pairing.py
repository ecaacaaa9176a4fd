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
    """The tolerances: an element is close when |left - right| <= absolute + relative * |right|."""
    not_close: int
    first: list[tuple[int, float, float]]
    """The first elements that are not close: index in C order, left, right."""

    @property
    def equal(self) -> bool:
        return bool(self.metrics["equal_bits"] == self.metrics["count"])


def pair(
    left: Content, right: Content, *, relative: float = 0.001, absolute: float = 0.001, most: int = 20
) -> Paired:
    """Raises InvalidArgument for different shapes."""
    dtypes: Any = {"left_dtype": left.dtype, "right_dtype": right.dtype}
    metrics = dict(core.compare_tensors(left.memory, right.memory, threads=0, **dtypes))
    count, first = core.differing_elements(
        left.memory, right.memory, relative=relative, absolute=absolute, most=most, **dtypes
    )
    return Paired(metrics, _cosine(metrics), _l2(metrics), relative, absolute, count, first)


def _cosine(metrics: dict[str, Any]) -> float | None:
    if metrics["finite_pairs"] != metrics["count"]:
        return math.nan
    left, right = metrics["left_squares"], metrics["right_squares"]
    if left == 0 or right == 0:
        return 1.0 if left == right else None
    return float(metrics["dot"] / (math.sqrt(left) * math.sqrt(right)))


def _l2(metrics: dict[str, Any]) -> float:
    return math.nan if metrics["finite_pairs"] != metrics["count"] else math.sqrt(metrics["squared_distance"])


def index_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Where the element with this number in C order is."""
    index: list[int] = []
    for extent in reversed(shape):
        flat, rest = divmod(flat, extent)
        index.append(rest)
    return tuple(reversed(index))
