# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which call of which rank made the first infinity or NaN: of a step, or of the first step that has one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.dump_folders import STEP, number_of, numbered
from msprobe.files.run_folder import dump_of
from msprobe.native import InvalidArgument, core
from msprobe.overflow.origin import report_of, write_report
from msprobe.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.result import Cell


@dataclass(frozen=True, repr=False)
class NanResult(Result):
    """The origins of infinities and NaN in one step."""

    folder: Path
    """Of the step."""
    step: int
    report: dict[str, list[dict[str, Any]]]
    """The origins of each rank, as in the file (docs/formats/anomaly_analyze.md); empty: there is none."""
    notes: list[str]
    unread_ranks: list[int]
    file: Path | None = None
    """None: nothing was written."""

    @property
    def found(self) -> bool:
        return bool(self.report)

    @property
    def sentence(self) -> str:
        first = next(((rank, one) for rank, found in self.report.items() for one in found), None)
        if first is None:
            unread = f"; ranks that cannot be read: {self.unread_ranks}" if self.unread_ranks else ""
            return f"No call made an infinity or a NaN{unread}"
        rank, entry = first
        return (
            f"The first infinity or NaN: {entry['op_name']} (step {self.step}, {rank.replace('_', ' ')}): "
            f"{entry['reason']}"
        )

    def table(self) -> Sequence[dict[str, Cell]]:
        return [
            {
                "step": self.step,
                "rank": int(rank.removeprefix("rank_")),
                "call": entry["op_name"],
                "cause": entry["cause"],
                "phase": entry["phase"],
                "reason": entry["reason"],
                "module": " > ".join(entry["construct_info"][:-1]),
            }
            for rank, entries in self.report.items()
            for entry in entries
        ]


def nan_analyze(
    dump: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    step: int | None = None,
    threads: int = 0,
) -> NanResult:
    """Looks for the origin of the first infinity or NaN.

    dump: a folder of `msprobe run`, a dump path (step0, step1, ...), the folder of a step or of one rank.
    output: folder for anomaly_analyze_{time}.json, which is written where something was found; None: no file.
    step: of a run; None: the first one with an infinity or NaN. threads: 0 means all cores.

    Raises InvalidArgument, FormatError and IoError.
    """
    result = None
    for folder in _steps(Path(dump), step):
        analysis = core.find_origins(folder, threads=threads)
        result = NanResult(
            folder,
            number_of(STEP, folder.resolve()),
            report_of(analysis),
            analysis.notes,
            analysis.unread_ranks,
        )
        if result.found:
            break
    assert result is not None  # there is a step
    if not result.found or output is None:
        return result
    file = write_report(result.report, os.fspath(output))
    return NanResult(result.folder, result.step, result.report, result.notes, result.unread_ranks, file)


def _steps(path: Path, step: int | None) -> list[Path]:
    path = dump_of(path)
    if not path.is_dir():
        raise InvalidArgument(f"{path}: expected the folder of a run, a step or a rank")
    steps = numbered(path, STEP)
    if step is not None and step not in steps:
        raise InvalidArgument(f"{path}: there is no step {step}, expected one of {sorted(steps)[:20]}")
    if step is not None:
        return [steps[step]]
    return [steps[number] for number in sorted(steps)] or [path]
