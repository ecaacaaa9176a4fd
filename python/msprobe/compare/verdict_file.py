# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""verdict.json: the answer of a comparison for programs (docs/formats/verdict.md), and what the other reports
share with it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import asdict, dataclass

from msprobe.compare.finding import Phase
from msprobe.compare.verdict import Tolerance
from msprobe.files.atomic_file import write_text
from msprobe.files.page import strict
from msprobe.native import __version__
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from msprobe.compare.finding import Finding, Kind
    from msprobe.compare.result import CompareResult, LeftOut, PairResult

    FramesOf = Callable[[Finding], list[str]]

_MOST_NAMED = 3  # things left out, in a sentence

# Confidence, see confidence().
_EXACT = 0.95
_LEAST = 0.5
_MOST_IN_NOISE = 0.9

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
class Culprit:
    """A finding that is to blame, as the reports show it."""

    kind: Kind
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
    """Of the run under test; empty: the place is no record."""

    def top_frames(self, most: int) -> list[Frame]:
        """The innermost frames of the user's own code; of any code when there are none."""
        return ([frame for frame in self.stack if frame.is_of_user] or self.stack)[:most]

    @property
    def where(self) -> str:
        """ "operator Functional.gelu.3.forward in blocks.0.mlp"."""
        inside = f" in {self.module}" if self.module else ""
        return printable(f"{self.kind.replace('_', ' ')} {self.name}{inside}")


def culprits_of(
    result: CompareResult, frames_of: FramesOf | None = None, tolerance: Tolerance | None = None
) -> list[Culprit]:
    """The culprits of the verdict, best first. `frames_of`: the frames of a finding, as in stack.json."""
    judged_by = tolerance or Tolerance()
    return [
        Culprit(
            kind=finding.kind,
            name=finding.name,
            module=finding.module,
            operator=finding.operator,
            step=finding.step,
            rank=finding.rank,
            reason=finding.reason,
            confidence=confidence(finding, place, result.verdict.noisy, judged_by),
            metrics=finding.metrics,
            stack=[parse_frame(text) for text in (frames_of(finding) if frames_of else [])],
            record=finding.record,
        )
        for place, finding in enumerate(result.verdict.culprits)
    ]


def confidence(finding: Finding, place: int, noisy: bool, tolerance: Tolerance) -> float:
    """How sure it is that the finding is where the runs part, in (0, 1]; `place`: among the culprits, from 0.

    What is compared exactly (settings, flags, calls that only one run has) and what cannot be another kernel:
    0.95. Where all that went in is equal, the only doubt is whether the difference is more than another
    kernel's rounding: 0.5 + 0.45 d / (d + 64), d rounding errors. In noise, how far it stands out:
    0.9 - 0.4 / x, x how many times the least jump and the least size that make a culprit. Each earlier
    culprit halves it.
    """
    return round(max(_own_confidence(finding, noisy, tolerance) * 0.5**place, 0.001), 3)


def _own_confidence(finding: Finding, noisy: bool, tolerance: Tolerance) -> float:
    size = finding.distance if finding.effect is None else finding.effect
    in_noise = noisy or not finding.exact_before
    if (
        math.isinf(size)
        or (finding.equal_before and not in_noise)
        or finding.phase == Phase.OPTIMIZER_SETTING
    ):
        return _EXACT
    if not in_noise:
        small = tolerance.small(finding)
        return _LEAST + (_EXACT - _LEAST) * (size / (size + small) if size > 0 else 0)
    jump = size / max(finding.before, 1.0)
    surplus = max(min(jump / tolerance.jump, size / tolerance.size(finding)), 1.0)
    return _MOST_IN_NOISE - (_MOST_IN_NOISE - _LEAST) / surplus


def parse_frame(text: str) -> Frame:
    """Of stack.json: "File train.py, line 12, in forward, " and the line of source below it."""
    found = _FRAME.fullmatch(text.strip())
    if found is None:
        return Frame(None, None, "", text.strip())
    return Frame(found["file"], int(found["line"]), found["function"].strip(), (found["code"] or "").strip())


# ---- the answer in words


def status(result: CompareResult) -> str:
    """ "agree" or "differ"."""
    return "agree" if result.agree else "differ"


def sentence(result: CompareResult) -> str:
    """The answer for a person, in one line."""
    if result.verdict.culprits:
        first = result.verdict.culprits[0]
        place = f"step {first.step}, rank {first.rank}"
        inside = f" in {first.module}" if first.module else ""
        return printable(f"The runs part at {place}: {first.kind.replace('_', ' ')} {first.name}{inside}")
    counts = count(result)
    rows = _plural(counts["matched"], "row")
    compared = f"{rows} of {_plural(counts['steps'], 'step')} and {_plural(counts['ranks'], 'rank')}"
    missing = [one for one in result.left_out if one.is_difference]
    if missing:
        return f"What could be compared agrees ({compared}), but not all could be: {_named(missing)}"
    beyond = (
        "there is rounding noise, and nothing stands out of it" if result.verdict.noisy else "no fault found"
    )
    if all(pair.walk.all_equal for pair in result.pairs):
        beyond = "all equal"
    alone = counts["unmatched"] + counts["only_in_golden"]
    without = f"; {alone:,} more items are in one run only" if alone else ""
    return f"The runs agree: {compared} compared, {beyond}{without}"


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
        total.update(only_in_golden=pair.summary.right_only)
    return {
        "steps": len({pair.step for pair in result.pairs}),
        "ranks": len({pair.rank for pair in result.pairs}),
        "pairs": len(result.pairs),
        "rows": total["rows"],
        "matched": total["matched"],
        "unmatched": total["rows"] - total["matched"],
        "only_in_golden": total["only_in_golden"],
        "failing": total["failing"],
    }


def verdict_json(result: CompareResult, culprits: list[Culprit]) -> str:
    """The text of verdict.json."""
    return json.dumps(strict(_content(result, culprits)), indent=1, allow_nan=False) + "\n"


def write_verdict(path: Path, result: CompareResult, culprits: list[Culprit]) -> None:
    """Complete or absent. Raises IoError."""
    write_text(path, verdict_json(result, culprits))


def _content(result: CompareResult, culprits: list[Culprit]) -> dict[str, object]:
    return {
        "format": 1,
        "msprobe": __version__,
        "status": status(result),
        "sentence": sentence(result),
        "noisy": result.verdict.noisy,
        "culprits": [culprit_content(culprit) for culprit in culprits],
        "notes": result.verdict.notes,
        "counts": count(result),
        "worst_rank": result.worst_rank,
        "first_step": result.first_step,
        "pairs": [_pair_content(pair) for pair in result.pairs],
        "left_out": [asdict(one) for one in result.left_out],
        "inputs": {
            "target": str(result.target),
            "golden": str(result.golden),
            "output": str(result.output),
            "tolerance": result.tolerance,
            "noise": [str(path) for path in result.noise],
        },
    }


def culprit_content(culprit: Culprit) -> dict[str, object]:
    content = asdict(culprit)
    del content["record"]
    return content


def _pair_content(pair: PairResult) -> dict[str, object]:
    first = min(pair.walk.findings, key=lambda finding: finding.place, default=None)
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
        "only_in_golden": pair.summary.right_only,
        "first_failing_row": pair.summary.first_failing,
        "compared": pair.walk.compared,
        "equal": pair.walk.equal,
        "median_distance": pair.walk.median,
        "findings": len(pair.walk.findings),
        "first_finding": None
        if first is None
        else {"kind": first.kind, "name": first.name, "module": first.module, "reason": first.reason},
    }
