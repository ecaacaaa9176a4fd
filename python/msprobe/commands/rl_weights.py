# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Weights after a sync, next to those that were sent: read as checkpoints, of any layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints
from msprobe.native import core
from msprobe.rl.result import WeightDifference, WeightResult
from msprobe.terminal.progress import Progress

if TYPE_CHECKING:
    from msprobe.checkpoint.result import ParameterRow


def compare_weights(
    sent: str, received: str, mapping: str | None, *, threads: int = 0, shows_progress: bool = False
) -> WeightResult:
    """Raises as msprobe ckpt does."""
    with Progress("weights", shown=shows_progress, in_bytes=True) as progress:
        found = compare_checkpoints(
            sent, received, CheckpointOptions(mapping=mapping, threads=threads, progress=progress)
        )
    rounded = [row for row in found.rows if not row.equal and _is_rounding(row)]
    differing = [
        WeightDifference(row.name, _reason(row))
        for row in found.differing
        if not row.equal and not _is_rounding(row)
    ]
    differing += [WeightDifference(name, "was sent and not received") for name in found.reference_only]
    differing += [WeightDifference(name, "was received and not sent") for name in found.target_only]
    differing += [WeightDifference(name, f"not compared: {reason}") for name, reason in found.not_compared]
    return WeightResult(
        sent=sent,
        received=received,
        parameters=len(found.rows) + len(found.reference_only) + len(found.target_only),
        equal=sum(row.equal for row in found.rows),
        rounded=len(rounded),
        differing=differing,
        notes=found.notes,
    )


def _is_rounding(row: ParameterRow) -> bool:
    """Whether a weight was only rounded to a narrower dtype on its way. Numbers so small that float16 has no
    full precision for them do not count as rounding.
    """
    if row.max_relative is None or row.dtypes[0] == row.dtypes[1] or row.reshaped:
        return False
    largest = max(core.unit_roundoff(dtype) for dtype in row.dtypes)
    return 0 < row.max_relative <= largest * (1 + largest)


def _reason(row: ParameterRow) -> str:
    if row.reshaped:
        return f"the shapes are {row.shapes[0]} and {row.shapes[1]}"
    if not row.compared:
        return "the hashes differ"
    share = 100 * (row.equal_bits or 0) / max(row.count, 1)
    dtypes = "" if row.dtypes[0] == row.dtypes[1] else f", {row.dtypes[0]} and {row.dtypes[1]}"
    return (
        f"largest absolute error {row.max_absolute:.3g}, relative {row.max_relative:.3g}; "
        f"{min(share, 99.9):.1f}% of the elements are equal{dtypes}"
    )
