# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which call of which rank made the first infinity or NaN: of a step, or of the first step that has one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.dump_folders import RANK, STEP, number_of, numbered
from msprobe.files.left_out import LeftOut, left_out, sentence
from msprobe.files.run_folder import dump_of, ranks_of_run
from msprobe.native import Error, InvalidArgument, core
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
    left_out: list[LeftOut] = field(default_factory=list)
    """What was not looked at: an infinity or a NaN may be in it."""
    file: Path | None = None
    """None: nothing was written."""

    @property
    def found(self) -> bool:
        return bool(self.report)

    @property
    def sentence(self) -> str:
        first = next(((rank, one) for rank, found in self.report.items() for one in found), None)
        if first is None:
            unseen = (
                f" in what was looked at, but not all was: {sentence(self.left_out)}" if self.left_out else ""
            )
            return f"No call made an infinity or a NaN{unseen}"
        rank, entry = first
        before = [one for one in self.left_out if one.may_hold(self.step)]
        which = "The first infinity or NaN" + (" that was seen" if before else "")
        return (
            f"{which}: {entry['op_name']} (step {self.step}, {rank.replace('_', ' ')}): {entry['reason']}"
            + (f"; not looked at: {sentence(before)}" if before else "")
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
    folders = _steps(Path(dump), step)
    is_run = bool(STEP.fullmatch(folders[0].resolve().name))
    result = NanResult(folders[0], number_of(STEP, folders[0].resolve()), {}, [], [])
    error: Error | None = None
    looked_at = 0
    missing = _missing_ranks(folders, ranks_of_run(Path(dump)))
    for folder in folders:
        number = number_of(STEP, folder.resolve())
        of_step = number if is_run else None
        missing_here = [
            left_out("there is no folder of it", of_step, rank) for rank in missing.get(folder, ())
        ]
        result.left_out.extend(missing_here)
        try:
            analysis = core.find_origins(folder, threads=threads)
        except Error as problem:
            error = error or problem
            result.left_out.append(left_out(str(problem), number))
            continue
        looked_at += 1
        result = replace(
            result,
            folder=folder,
            step=number,
            report=report_of(analysis),
            notes=[*result.notes, *(note for note in analysis.notes if note not in result.notes)],
            unread_ranks=sorted({*result.unread_ranks, *analysis.unread_ranks}),
            left_out=[*result.left_out, *_unread(analysis, of_step)],
        )
        if result.found:
            break
    if error is not None and not looked_at:
        raise error
    if not result.found or output is None:
        return result
    return replace(result, file=write_report(result.report, os.fspath(output)))


def _unread(analysis: core.OverflowAnalysis, step: int | None) -> list[LeftOut]:
    reasons = {
        rank: note.partition(" is left out: ")[2]
        for rank in analysis.unread_ranks
        for note in analysis.notes
        if note.startswith(f"rank {rank} is left out: ")
    }
    return [left_out(reason, step, rank) for rank, reason in reasons.items()]


def _missing_ranks(folders: list[Path], of_run: set[int]) -> dict[Path, list[int]]:
    """By step the ranks that other steps have, or that trained, and that it has no folder of."""
    found = {folder: set(numbered(folder, RANK)) for folder in folders}
    known = of_run.union(*found.values())
    return {folder: sorted(known - ranks) for folder, ranks in found.items() if ranks}


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
