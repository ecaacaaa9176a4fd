# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The file of an analysis: anomaly_analyze_{time in ns}.json (docs/formats/anomaly_analyze.md)."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.native import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.native import core


def report_of(analysis: core.OverflowAnalysis) -> dict[str, list[dict[str, Any]]]:
    """The content of the file: for each rank its origins."""
    report: dict[str, list[dict[str, Any]]] = {}
    for origin in analysis.origins:
        report.setdefault(f"rank_{origin.rank}", []).append(_entry(origin))
    return report


def write_report(report: dict[str, list[dict[str, Any]]], directory: str) -> Path:
    """Writes the file into `directory`, which is made if needed, and returns its path. Raises IoError."""
    path = make_directory(directory) / f"anomaly_analyze_{time.time_ns()}.json"
    write_text(path, json.dumps(report, indent=2))
    return path


def _entry(origin: core.OverflowOrigin) -> dict[str, Any]:
    record = _record(origin)
    entry = {
        "op_name": origin.record,
        "data_info": _data_info(origin, record),
        "construct_info": origin.ancestry,
        "stack_info": origin.stack or {},
        "cause": origin.cause,
        "phase": origin.phase,
        "reason": origin.reason,
    }
    if origin.cause == "parameter":
        entry["parameters"] = record.get("parameters", {})
    if origin.forward_stack:
        entry["forward_stack_info"] = origin.forward_stack
    return entry


def _record(origin: core.OverflowOrigin) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(origin.json)
    except ValueError as error:  # the file was changed meanwhile, or has a number of thousands of digits
        raise FormatError(f"dump.json: record {origin.record!r} cannot be read again: {error}") from error
    return record


def _data_info(origin: core.OverflowOrigin, record: dict[str, Any]) -> dict[str, Any]:
    if origin.cause == "gradient":
        return {"gradients": record}
    if "input" in record or origin.record.rpartition(".")[2] == "backward":
        return {key: record.get(key, []) for key in ("input", "output")}
    return {
        "input_args": record.get("input_args", []),
        "input_kwargs": record.get("input_kwargs", {}),
        "output": record.get("output", []),
    }
