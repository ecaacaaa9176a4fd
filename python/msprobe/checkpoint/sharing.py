# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One comparison by several processes, as torchrun starts them: each measures some of the parameters."""

from __future__ import annotations

import time
from dataclasses import asdict, replace

from msprobe.checkpoint.comparison import CheckpointOptions, compare_checkpoints
from msprobe.checkpoint.hash_file import is_hash_file
from msprobe.checkpoint.result import CheckpointResult, ParameterRow
from msprobe.files.meeting import Meeting, Process, of_environment
from msprobe.native import IoError

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


def process_of_environment() -> Process | None:
    """None for a process that is alone. Raises InvalidArgument for an environment that makes no sense."""
    return of_environment()


def compare_shared(
    checkpoints: list[str],
    options: CheckpointOptions,
    process: Process | None,
    folder: Path,
    timeout: float,
) -> CheckpointResult | None:
    """The whole result; None in every process but the first one. `folder`: one that all processes see. Raises
    IoError when a process is lost: what it was to measure is missing then.
    """
    reference, target = checkpoints
    if process is None:
        return compare_checkpoints(reference, target, options)
    if is_hash_file(reference) or is_hash_file(target):  # little work, most of it to read one side
        return compare_checkpoints(reference, target, options) if process.number == 0 else None
    begin = time.monotonic()
    options = replace(options, share=(process.number, process.count))
    with Meeting(folder, process, timeout, name="ckpt") as meeting:
        meeting.agree_on(lambda: "")
        result = compare_checkpoints(reference, target, options)
        if process.number != 0:
            meeting.deliver({"rows": [asdict(row) for row in result.rows]})
            return None
        parts, lost = meeting.collect()
    if lost:
        numbers = ", ".join(map(str, lost))
        raise IoError(
            f"{folder}: no part of the result came from process {numbers} of {process.count}, which gave no "
            "sign of life any more"
        )
    rows = [*result.rows, *(_row(row) for part in parts for row in part["rows"])]
    order = {name: place for place, name in enumerate(result.row_order)}
    return replace(
        result, rows=sorted(rows, key=lambda row: order[row.name]), seconds=time.monotonic() - begin
    )


def _row(content: dict[str, Any]) -> ParameterRow:
    """JSON has no tuples."""
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in content.items()
    }
    return ParameterRow(**values)
