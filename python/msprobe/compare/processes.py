# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One comparison by several processes: each does the pairs of some ranks, process 0 puts the parts
together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from msprobe.compare.pair_result import PairResult, ReportRows, TableSummary
from msprobe.files.left_out import LeftOut
from msprobe.files.meeting import Process
from msprobe.native import Error, core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Any

    from msprobe._core import StepWalk
    from msprobe.compare.inputs import DumpFiles


@dataclass
class Part:
    """What one process found."""

    pairs: list[PairResult] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    noise: dict[int, list[StepWalk]] = field(default_factory=dict)
    """The walks over each repeated run of the reference, by its place in the list of them."""
    error: Error | None = None
    """The first one; not sent to other processes, which get its text in `left_out`."""

    def note_error(self, files: DumpFiles, error: Error) -> None:
        self.left_out.append(files.left_out(str(error)))
        self.error = self.error or error


def share_of(pairs: list[DumpFiles], process: Process) -> list[DumpFiles]:
    """The pairs of this process. All steps of a rank belong to one, which walks them in their order."""
    ranks = sorted({files.rank for files in pairs})
    own = set(ranks[process.number :: process.count])
    return [files for files in pairs if files.rank in own]


def lost_share(pairs: list[DumpFiles], number: int, count: int) -> list[LeftOut]:
    """What is missing when another process gave no part."""
    share = share_of(pairs, Process(number, count, ""))
    reason = f"process {number} of {count} gave no sign of life any more; it was to compare this"
    return [files.left_out(reason) for files in share]


# ---- parts as JSON


def to_json(part: Part) -> dict[str, Any]:
    return {
        "pairs": [_pair_to_json(pair) for pair in part.pairs],
        "left_out": [asdict(one) for one in part.left_out],
        "noise": {number: [walk.plain() for walk in walks] for number, walks in part.noise.items()},
    }


def _pair_to_json(pair: PairResult) -> dict[str, Any]:
    content = {one.name: getattr(pair, one.name) for one in fields(pair)}
    for key, value in content.items():
        if isinstance(value, Path):
            content[key] = str(value)
    return {
        **content,
        "summary": asdict(pair.summary),
        "report": asdict(pair.report) if pair.report is not None else None,
        "walk": pair.walk.plain(),
    }


def of_json(content: dict[str, Any]) -> Part:
    return Part(
        pairs=[_pair_of_json(pair) for pair in content["pairs"]],
        left_out=[LeftOut(**one) for one in content["left_out"]],
        noise={
            int(number): [core.StepWalk.of_plain(walk) for walk in walks]
            for number, walks in content["noise"].items()
        },
    )


def _pair_of_json(content: dict[str, Any]) -> PairResult:
    paths = {
        key: Path(content[key]) if content[key] is not None else None
        for key in ("target", "reference", "table", "advice")
    }
    return PairResult(
        **{
            **content,
            **paths,
            "summary": TableSummary(**content["summary"]),
            "report": ReportRows(**content["report"]) if content["report"] is not None else None,
            "walk": core.StepWalk.of_plain(content["walk"]),
        }
    )
