# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One comparison by several processes: each does the pairs of some ranks, process 0 puts the parts
together.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from msprobe.compare.finding import Finding, Phase
from msprobe.compare.pair_walk import PairWalk
from msprobe.compare.result import LeftOut, PairResult, ReportRows, TableSummary
from msprobe.files.meeting import Process
from msprobe.native import Error

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Any

    from msprobe.compare.inputs import DumpFiles


@dataclass
class Part:
    """What one process found."""

    pairs: list[PairResult] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    noise: dict[int, list[PairWalk]] = field(default_factory=dict)
    """The walks over each repeated run of the reference, by its place in the list of them."""
    error: Error | None = None
    """The first one; not sent to other processes, which get its text in `left_out`."""

    def note_error(self, files: DumpFiles, error: Error) -> None:
        self.left_out.append(LeftOut(files.what, str(error)))
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
    return [LeftOut(files.what, reason) for files in share]


# ---- parts as JSON


def to_json(part: Part) -> dict[str, Any]:
    def plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key: str(value) if isinstance(value, Path) else value for key, value in pairs}

    return {
        "pairs": [asdict(pair, dict_factory=plain) for pair in part.pairs],
        "left_out": [asdict(one) for one in part.left_out],
        "noise": {number: [asdict(walk) for walk in walks] for number, walks in part.noise.items()},
    }


def of_json(content: dict[str, Any]) -> Part:
    return Part(
        pairs=[_pair_of_json(pair) for pair in content["pairs"]],
        left_out=[LeftOut(**one) for one in content["left_out"]],
        noise={int(number): list(map(_walk_of_json, walks)) for number, walks in content["noise"].items()},
    )


def _pair_of_json(content: dict[str, Any]) -> PairResult:
    paths = {
        key: Path(content[key]) if content[key] is not None else None
        for key in ("target", "golden", "table", "advice")
    }
    return PairResult(
        **{
            **content,
            **paths,
            "summary": TableSummary(**content["summary"]),
            "report": ReportRows(**content["report"]) if content["report"] is not None else None,
            "walk": _walk_of_json(content["walk"]),
        }
    )


def _walk_of_json(content: dict[str, Any]) -> PairWalk:
    findings = [Finding(**{**one, "phase": Phase(one["phase"])}) for one in content["findings"]]
    return PairWalk(**{**content, "findings": findings})
