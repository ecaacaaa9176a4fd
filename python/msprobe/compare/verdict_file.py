# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""verdict.json: the answer of a comparison for programs (docs/formats/verdict.md), and what the other reports
share with it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import asdict, dataclass

from msprobe.compare.plain_words import difference, plain
from msprobe.files.atomic_file import write_text
from msprobe.files.page import strict_json
from msprobe.native import __version__
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Literal

    from msprobe._core import Finding
    from msprobe.compare.result import CompareResult, LeftOut, PairResult

    FramesOf = Callable[[Finding], list[str]]

_MOST_NAMED = 3  # things left out, in a sentence

_FRAME = re.compile(
    r"File (?P<file>.*?), line (?P<line>\d{1,9}), in (?P<function>[^\n]*?)(?:, *)?(?:\n(?P<code>.*))?",
    re.DOTALL,
)
_NOT_OF_THE_USER = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ", "<string>")


@dataclass(frozen=True)
class Frame:
    """A line of stack.json. One that is written otherwise has its text as `code` and no file."""

    file: str | None
    line: int | None
    function: str
    code: str

    @property
    def is_of_user(self) -> bool:
        """Not in an installed package or in Python itself."""
        return self.file is not None and not any(part in self.file for part in _NOT_OF_THE_USER)

    @property
    def text(self) -> str:
        if self.file is None:
            return self.code
        return f"{self.file}:{self.line} in {self.function}" + (f": {self.code}" if self.code else "")


@dataclass(frozen=True)
class Replay:
    """What a new run of a call says of it (--replay)."""

    answer: Literal["confirmed", "cleared", "unknown"]
    reason: str
    introduced: float | None = None
    """Error of the call on its own arguments, as a 2-norm relative to the truth."""
    inherited: float | None = None
    """What the difference of the arguments makes of the truth, in the same unit."""


@dataclass(frozen=True)
class Culprit:
    """A finding that is to blame, as the reports show it."""

    kind: str
    name: str
    module: str
    operator: str
    step: int
    rank: int
    reason: str
    confidence: float
    metrics: dict[str, object]
    stack: list[Frame]
    """The innermost call first."""
    record: str
    """Of the target; empty: the place is no record of it."""
    reference_record: str
    """Of the reference, for what only this one has; empty: the place is in the target."""
    replay: Replay | None = None
    """None: not asked for."""

    def top_frames(self, most: int) -> list[Frame]:
        """The innermost frames of the user's own code; of any code when there are none."""
        return ([frame for frame in self.stack if frame.is_of_user] or self.stack)[:most]

    @property
    def where(self) -> str:
        """ "operator Functional.gelu.3.forward in blocks.0.mlp"."""
        inside = f" in {self.module}" if self.module else ""
        return printable(f"{self.kind.replace('_', ' ')} {self.name}{inside}")

    @property
    def plain(self) -> str:
        """The same for a person: "layers.2.rot is not called by the target; ..."."""
        return plain(self)

    @property
    def node(self) -> str:
        """The node of a graph that shows it; empty: none."""
        return self.record or self.reference_record or _NODES.get(self.kind, "")

    @property
    def in_a_graph(self) -> str:
        """What a graph says at this node: in plain words, and on a second line by the names of the files."""
        return f"{self.plain}\n{self.where}: {printable(self.reason)}"


# Where a graph shows what belongs to no call.
_NODES = {
    "optimizer_setting": "optimizer",
    "optimizer_state": "optimizer",
    "update": "optimizer",
    "clipping": "clip_grad",
}


def culprits_of(result: CompareResult, frames_of: FramesOf | None = None) -> list[Culprit]:
    """The culprits of the verdict, best first. `frames_of`: the frames of a finding, as in stack.json."""
    return [
        Culprit(
            kind=finding.kind,
            name=finding.name,
            module=finding.module,
            operator=finding.operator,
            step=finding.step,
            rank=finding.rank,
            reason=finding.reason,
            confidence=round(finding.confidence(place), 3),
            metrics=_metrics(finding),
            stack=[parse_frame(text) for text in (frames_of(finding) if frames_of else [])],
            record="" if finding.is_of_reference else finding.record,
            reference_record=finding.record if finding.is_of_reference else "",
        )
        for place, finding in enumerate(result.verdict.culprits)
    ]


def _metrics(finding: Finding) -> dict[str, object]:
    """The numbers behind a finding; of a setting the two values."""
    if finding.target_value or finding.reference_value:
        return {"target": finding.target_value, "reference": finding.reference_value}
    if math.isinf(finding.distance):
        return {}
    return {"distance": finding.distance, "explained": finding.explained}


def parse_frame(text: str) -> Frame:
    """Of stack.json: "File train.py, line 12, in forward, " and the line of source below it."""
    found = _FRAME.fullmatch(text.strip())
    if found is None:
        return Frame(None, None, "", text.strip())
    return Frame(found["file"], int(found["line"]), found["function"].strip(), (found["code"] or "").strip())


# ---- the answer in words


def status(result: CompareResult) -> str:
    """ "equal", "rounding", "differ" or "incomplete"."""
    return result.status


def sentence(result: CompareResult, culprits: list[Culprit] | None = None) -> str:
    """The answer for a person, in one line. `culprits`: those of the result with their lines, where known."""
    if result.verdict.culprits:
        first = (culprits or culprits_of(result))[0]
        counts = count(result)
        return difference(first.plain, first.step, first.rank if counts["ranks"] > 1 else None)
    counts = count(result)
    rows = _plural(counts["matched"], "row")
    steps = f"{_plural(counts['steps'], 'step')} and {_plural(counts['ranks'], 'rank')}"
    compared = f"{rows} of {steps}, {_evidence(result)}"
    if result.verdict.status == "differ":
        return printable(
            f"The runs differ by more than rounding, and no call explains it: {_stretch(result)}"
        )
    missing = [one for one in result.left_out if one.is_difference]
    if missing:
        return f"What could be compared agrees ({compared}), but not all could be: {_named(missing)}"
    alone = counts["unmatched"] + counts["only_in_reference"]
    without = f"; {alone:,} more items are in one run only" if alone else ""
    if result.status == "equal":
        return f"The runs are equal: {compared}"
    return f"The runs agree but for rounding: {compared}{_largest(result)}{without}"


def _evidence(result: CompareResult) -> str:
    """With what the runs were compared: what they cannot be told apart by."""
    names = {
        "real_data": "by all elements",
        "md5": "by checksums",
        "statistics": "by statistics and sketches",
    }
    modes = sorted({names[pair.mode] for pair in result.pairs})
    unseen = sum(pair.walk.unseen for pair in result.pairs)
    hidden = f"; {_plural(unseen, 'tensor')} hidden by NaN or infinities" if unseen else ""
    return " and ".join(modes) + hidden


def _largest(result: CompareResult) -> str:
    """How large the differences are, and where they are largest."""
    largest = max((pair.walk.largest for pair in result.pairs), default=(0.0, ""))
    gradient = max((pair.walk.largest_gradient for pair in result.pairs), default=(0.0, ""))
    parts = [f"results by at most {largest[0]:.1g} ({largest[1]})"] if largest[0] > 0 else []
    parts += [f"gradients by at most {gradient[0]:.1g} ({gradient[1]})"] if gradient[0] > 0 else []
    return printable(f"; off are {', '.join(parts)}" if parts else "")


def _stretch(result: CompareResult) -> str:
    after = result.verdict.last_agreeing or "the beginning"
    return f"somewhere after {after} and up to {result.verdict.first_differing}"


def _named(missing: list[LeftOut]) -> str:
    names = ", ".join(f"{one.what} ({one.reason})" for one in missing[:_MOST_NAMED])
    more = len(missing) - _MOST_NAMED
    return printable(names + (f" and {more} more" if more > 0 else ""))


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# ---- the file


def count(result: CompareResult) -> dict[str, int]:
    total: Counter[str] = Counter()
    for pair in result.pairs:
        total.update(rows=pair.summary.rows, matched=pair.summary.matched, failing=pair.summary.failing)
        total.update(only_in_reference=pair.summary.reference_only)
    return {
        "steps": len({pair.step for pair in result.pairs}),
        "ranks": len({pair.rank for pair in result.pairs}),
        "pairs": len(result.pairs),
        "rows": total["rows"],
        "matched": total["matched"],
        "unmatched": total["rows"] - total["matched"],
        "only_in_reference": total["only_in_reference"],
        "failing": total["failing"],
    }


def verdict_json(result: CompareResult, culprits: list[Culprit]) -> str:
    """The text of verdict.json."""
    return strict_json(_content(result, culprits))


def write_verdict(path: Path, result: CompareResult, culprits: list[Culprit]) -> None:
    """Complete or absent. Raises IoError."""
    write_text(path, verdict_json(result, culprits))


def _content(result: CompareResult, culprits: list[Culprit]) -> dict[str, object]:
    return {
        "format": 2,
        "msprobe": __version__,
        "status": status(result),
        "sentence": sentence(result, culprits),
        "culprits": [culprit_content(culprit) for culprit in culprits],
        "notes": result.verdict.notes,
        "counts": count(result),
        "worst_rank": result.worst_rank,
        "first_step": result.first_step,
        "pairs": [_pair_content(pair) for pair in result.pairs],
        "left_out": [asdict(one) for one in result.left_out],
        "inputs": {
            "target": str(result.target),
            "reference": str(result.reference),
            "output": str(result.output),
            "noise": [str(path) for path in result.noise],
        },
    }


def culprit_content(culprit: Culprit) -> dict[str, object]:
    content = asdict(culprit)
    for key in ("record", "reference_record"):
        del content[key]
    if culprit.replay is None:
        del content["replay"]
    return content


def _pair_content(pair: PairResult) -> dict[str, object]:
    first = next(iter(pair.walk.findings), None)
    return {
        "step": pair.step,
        "rank": pair.rank,
        "mode": pair.mode,
        "debug": pair.is_debug,
        "table": None if pair.table is None else str(pair.table),
        "rows": pair.summary.rows,
        "matched": pair.summary.matched,
        "aligned": pair.summary.aligned,
        "failing": pair.summary.failing,
        "only_in_reference": pair.summary.reference_only,
        "first_failing_row": pair.summary.first_failing,
        "compared": pair.walk.compared,
        "equal": pair.walk.equal,
        "largest_difference": pair.walk.largest[0],
        "largest_gradient_difference": pair.walk.largest_gradient[0],
        "findings": len(pair.walk.findings),
        "first_finding": None
        if first is None
        else {"kind": first.kind, "name": first.name, "module": first.module, "reason": first.reason},
    }
