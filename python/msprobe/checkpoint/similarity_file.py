# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The result as JSON, in the form of mindstudio-probe: NaN and infinities as bare words, no line break at
the end.
"""

from __future__ import annotations

import json

from msprobe.files.atomic_file import write_text

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from msprobe.checkpoint.result import CheckpointResult, ParameterRow


def similarity(result: CheckpointResult, *, extended: bool) -> dict[str, dict[str, Any]]:
    """Parameter -> l2, cos, numel, shape, and with `extended` everything else that was measured."""
    return {row.name: _entry(row, extended) for row in result.rows}


def write_similarity(path: Path, result: CheckpointResult, *, extended: bool) -> None:
    """Complete or absent. Raises IoError."""
    write_text(path, json.dumps(similarity(result, extended=extended), indent=4))


def _entry(row: ParameterRow, extended: bool) -> dict[str, Any]:
    entry = {
        "l2": row.l2,
        "cos": row.cos,
        "numel": _one_or_both(row.counts),
        "shape": _one_or_both(row.shapes),
    }
    if not extended:
        return entry
    entry["dtype"] = _one_or_both(row.dtypes)
    if row.compared:
        entry |= {
            "max_abs": row.max_absolute,
            "max_rel": row.max_relative,
            "mean": list(row.means),
            "equal_bits": row.equal_bits,
            "nan": list(row.nan_counts),
            "inf": list(row.inf_counts),
        }
    if row.rows is not None:
        entry["rows"] = row.rows
    if None not in row.hashes:
        entry["hash"] = _one_or_both(row.hashes)
    return entry


def _one_or_both(pair: tuple[Any, Any]) -> Any:
    return pair[0] if pair[0] == pair[1] else list(pair)
