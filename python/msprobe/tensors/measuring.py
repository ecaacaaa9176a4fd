# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Statistics and histograms of tensors."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

from msprobe.native import core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.tensors.content import Content


@dataclass(frozen=True)
class Histogram:
    """Counts of the finite elements between neighbouring borders; an element on a border is in the interval
    below, the least one in the first.
    """

    borders: list[float]
    counts: list[int]


@dataclass(frozen=True)
class Measured:
    """`statistics`: as core.summarize() names them, and "std"; None for what the tensor does not have."""

    statistics: dict[str, Any]
    histogram: Histogram | None
    first: list[float]
    """The first elements, in C order."""


def measure(content: Content, *, bins: int = 16, first: int = 8, threads: int = 0) -> Measured:
    """Reads the tensor twice: for the statistics, then for the histogram. `bins` 0: there is none."""
    summary = core.summarize(content.memory, dtype=content.dtype, threads=threads)
    statistics = {**summary, "std": _deviation(summary)}
    values = core.tensor_values(content.memory, dtype=content.dtype, count=first)
    histogram = _histogram(content, summary, bins, threads) if bins else None
    return Measured(statistics, histogram, values)


def _deviation(summary: dict[str, Any]) -> float | None:
    """Of the whole, as numpy.std: from the sums, so tiny spreads beside a large mean are lost."""
    mean, norm, count = summary["mean"], summary["norm"], summary["count"]
    if mean is None or not count or summary.get("mean_imag") is not None:
        return None
    variance = norm * norm / count - mean * mean
    return variance if math.isnan(variance) else math.sqrt(max(variance, 0.0))


def _histogram(content: Content, summary: dict[str, Any], bins: int, threads: int) -> Histogram | None:
    least, most = _range(content, summary)
    if least is None or most is None:
        return None
    if not least < most or bins == 1:
        return Histogram([least, most], [summary["count"] - _not_finite(summary)])
    step = (most - least) / bins
    if not math.isfinite(step):
        step = most / bins - least / bins
    wanted = [_float32(least + i * step) for i in range(1, bins)]
    inner = [border for i, border in enumerate(wanted) if i == 0 or border > wanted[i - 1]]
    found = core.summarize(content.memory, dtype=content.dtype, bounds=inner, threads=threads)
    counts: list[int] = list(found["interval_counts"])  # type: ignore[arg-type]
    counts[0] -= summary["neg_inf_count"]
    counts[-1] -= summary["pos_inf_count"] + summary["nan_count"]
    return Histogram([least, *inner, most], counts)


def _range(content: Content, summary: dict[str, Any]) -> tuple[float | None, float | None]:
    """Of the finite elements."""
    if not _not_finite(summary):
        return summary["min"], summary["max"]
    pairs = core.compare_tensors(
        content.memory, content.memory, target_dtype=content.dtype, reference_dtype=content.dtype
    )
    return pairs["target_min"], pairs["target_max"]


def _not_finite(summary: dict[str, Any]) -> int:
    return int(summary["nan_count"] + summary["pos_inf_count"] + summary["neg_inf_count"])


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(3.4028234663852886e38, value)
