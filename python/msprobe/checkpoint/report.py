# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The page of a comparison: a map of layers and kinds of parameters, and the table of all of them."""

from __future__ import annotations

from msprobe.checkpoint.layers import place_of
from msprobe.files.page import report_page

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.checkpoint.limits import Failure
    from msprobe.checkpoint.result import CheckpointResult, CheckpointSide, ParameterRow

# A page beyond this would be slow to open; the worst rows are kept, and the page says how many there are.
_MOST_ROWS = 50_000
_MOST_NAMES = 1000


def report_html(result: CheckpointResult, failing: Sequence[Failure]) -> str:
    return report_page("checkpoint", "Checkpoints", _data(result, failing))


def _data(result: CheckpointResult, failing: Sequence[Failure]) -> dict[str, object]:
    rows = result.rows
    if len(rows) > _MOST_ROWS:
        kept = {row.name for row in result.differing[:_MOST_ROWS]}
        rows = [row for row in rows if row.name in kept]
    return {
        "same": result.same,
        "failing": len(failing),
        "sentence": result.answer(within_limits=not failing),
        "sides": [_side(side) for side in (result.reference, result.target)],
        "notes": result.notes,
        "only": [result.reference_only[:_MOST_NAMES], result.target_only[:_MOST_NAMES]],
        "onlyTotal": [len(result.reference_only), len(result.target_only)],
        "rows": [_row(row) for row in rows],
        "rowTotal": len(result.rows),
    }


def _side(side: CheckpointSide) -> dict[str, object]:
    return {
        "path": side.path,
        "kind": side.kind,
        "iteration": side.iteration,
        "sizes": list(side.parallel_sizes),
        "parameters": side.parameters,
        "leftOut": [list(one) for one in side.left_out[:_MOST_NAMES]],
        "warnings": side.warnings[:_MOST_NAMES],
    }


def _row(row: ParameterRow) -> list[object]:
    """As viewer/src/report/checkpoint.js reads it."""
    layer, kind = place_of(row.name)
    return [
        row.name,
        layer,
        kind,
        row.equal,
        row.relative_distance,
        row.l2,
        row.cos,
        row.max_absolute,
        row.max_relative,
        None if row.equal_bits is None or not row.count else row.equal_bits / row.count,
        list(row.means),
        sum(row.nan_counts),
        sum(row.inf_counts),
        row.shapes[0] if row.same_shape else list(row.shapes),
        row.dtypes[0] if row.dtypes[0] == row.dtypes[1] else " / ".join(row.dtypes),
    ]
