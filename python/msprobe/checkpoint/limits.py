# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Limits within which two checkpoints count as the same: `--fail-above l2=0.01`."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.checkpoint.result import CheckpointResult, ParameterRow


def _mean_difference(row: ParameterRow) -> float | None:
    reference, target = row.means
    return None if reference is None or target is None else abs(reference - target)


METRICS: dict[str, Callable[[ParameterRow], float | None]] = {
    "l2": lambda row: row.l2,
    "relative_l2": lambda row: row.relative_distance,
    "cos_distance": lambda row: None if row.cos is None else 1 - row.cos,
    "max_abs": lambda row: row.max_absolute,
    "max_rel": lambda row: row.max_relative,
    "mean_difference": _mean_difference,
    "different_elements": lambda row: None if row.equal_bits is None else row.count - row.equal_bits,
}


@dataclass(frozen=True)
class Limit:
    metric: str
    value: float


@dataclass(frozen=True)
class Failure:
    """A parameter, and why it counts as different."""

    name: str
    reason: str


def limit(text: str) -> Limit:
    """ "l2=0.01", as an argument of the command line."""
    metric, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if metric not in METRICS or math.isnan(value) or value < 0:
        raise argparse.ArgumentTypeError(
            f"expected METRIC=VALUE with one of {', '.join(METRICS)} and a number from 0 on, found {text!r}"
        )
    return Limit(metric, value)


def beyond(result: CheckpointResult, limits: list[Limit]) -> list[Failure]:
    """What makes the checkpoints different; without limits all that is not equal. What only one of them has,
    shapes that differ and what cannot be compared always do. A value that is no number is beyond every limit.
    """
    failures = [Failure(name, "only in the reference") for name in result.reference_only]
    failures += [Failure(name, "only in the target") for name in result.target_only]
    failures += [Failure(name, f"not compared: {reason}") for name, reason in result.not_compared]
    for row in result.differing:
        reason = _reason(row, limits)
        if reason is not None:
            failures.append(Failure(row.name, reason))
    return failures


def _reason(row: ParameterRow, limits: list[Limit]) -> str | None:
    if row.reshaped:
        return f"the shapes are {row.shapes[0]} and {row.shapes[1]}"
    if not row.compared:
        return "the hashes differ"
    if not limits:
        return f"{row.count - (row.equal_bits or 0)} of {row.count} elements differ"
    for one in limits:
        value = METRICS[one.metric](row)
        if value is None:
            return f"{one.metric} cannot be computed: one side is all zeros"
        if not value <= one.value:
            return f"{one.metric} is {value:.6g}, above {one.value:g}"
    return None
