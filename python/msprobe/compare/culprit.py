# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison blames: a finding of the verdict with its lines of code, and in plain words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from msprobe._core import Finding, Verdict

    FramesOf = Callable[[Finding], list[str]]

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
    ranks: tuple[int, ...] = ()
    """All in which this step has it; `rank` is the first of them."""

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
        """The same for a person who knows the model and not the names of records: "layers.2.rot is not called
        by the target; the reference calls it at model.py:30".
        """
        return printable(_plain(self))

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


def culprits_of(verdict: Verdict, frames_of: FramesOf | None = None) -> list[Culprit]:
    """The culprits of a verdict, best first. `frames_of`: the frames of a finding, as in stack.json."""
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
        for place, finding in enumerate(verdict.culprits)
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


# ---- plain words

_WAY = r"(?P<way>forward|backward)"
_MODULE = re.compile(rf"(?:Module|Cell)\.(?P<path>.+)\.[^.]+\.{_WAY}\.(?P<number>\d+)(?P<item>\..*)?")
_FUNCTION = re.compile(rf"[^.]+\.(?P<path>.+)\.(?P<number>\d+)\.{_WAY}(?P<item>\..*)?")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_LONGEST_VALUE = 60


def difference(text: str, step: int | None, ranks: str = "", missing: str = "") -> str:
    """The first line of an answer. `ranks`: "rank 3", "all 256 ranks"; empty where there is one. `missing`:
    what was not compared, and may hold an earlier difference.
    """
    at = [f"step {step}"] if step is not None else []
    at += [ranks] if ranks else []
    if not missing:
        return f"First difference: {', '.join([*at, text])}"
    place = f" at or before {', '.join(at)}" if at else ""
    return f"First difference{place}: {text}; not compared: {printable(missing)}"


# What a step leaves behind, and what ranks make together: a difference in it may have come from elsewhere.
_OF_OTHERS = ("weight", "buffer", "gradient", "reduction", "clipping", "optimizer_state", "update")


def may_follow(culprit: Culprit) -> bool:
    """Whether a difference of another rank, or of an earlier step, may be the cause of this one."""
    return culprit.kind in _OF_OTHERS or culprit.name.startswith("Distributed.")


def _plain(culprit: Culprit) -> str:
    thing, at = _thing(culprit), _at(culprit)
    called = f", called{at}" if at else ""
    ours, theirs = (str(culprit.metrics.get(side, "")) for side in ("target", "reference"))
    has_values = bool(ours or theirs) and max(len(ours), len(theirs)) <= _LONGEST_VALUE
    if culprit.kind == "missing_call" and not has_values:
        return f"{thing} is not called by the target; the reference calls it{at}"
    if culprit.kind == "extra_call" and not has_values:
        return f"{thing} is called by the target alone{at}"
    if culprit.kind in ("missing_call", "extra_call", "in_place", "clipping") or not thing:
        return culprit.reason or culprit.where
    if has_values:
        name = thing
        if culprit.kind in ("module_attribute", "optimizer_setting", "optimizer_state"):
            name, called = culprit.name, ""
        ours, theirs = _told_apart(ours or "absent", theirs or "absent")
        return f"{name} is {ours}, in the reference {theirs}{called}"
    if culprit.kind in ("operator", "reduction", "randomness"):
        from_equal = culprit.reason.startswith("what goes into")
        what = (
            "gives another result for equal inputs"
            if from_equal
            else "is off by more than its inputs explain"
        )
        return f"{thing} {what}{called}"
    if culprit.kind == "argument":
        return f"{thing} holds something else{called}"
    return culprit.reason or culprit.where


def _told_apart(a: str, b: str) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart; anything else as it is."""
    try:
        x, y = float(a), float(b)
    except ValueError:
        return a, b
    for digits in range(3, 17):
        short = f"{x:.{digits}g}", f"{y:.{digits}g}"
        if short[0] != short[1]:
            return (min(short[0], a, key=len), min(short[1], b, key=len))
    return a, b


def _at(culprit: Culprit) -> str:
    """The innermost line of the user's own code."""
    frame = next(iter(culprit.top_frames(1)), None)
    if frame is None or frame.file is None:
        return ""
    return f" at {PurePosixPath(frame.file.replace(chr(92), '/')).name}:{frame.line}"


def _thing(culprit: Culprit) -> str:
    """A module by its path, a function by its name and the module around it; else the name as it is."""
    found = _MODULE.fullmatch(culprit.name)
    if found is not None:
        thing, number = found["path"], int(found["number"])
        is_inside = f"{thing}.".startswith(f"{culprit.module}.")
        if number:
            ordinal = _ORDINALS[number] if number < len(_ORDINALS) else f"{number + 1}th"
            thing = f"the {ordinal} call of {thing}"
        if culprit.kind in ("missing_call", "extra_call") and culprit.module and not is_inside:
            thing += f" in {culprit.module}"  # one module may stand at several places
    else:
        found = _FUNCTION.fullmatch(culprit.name)
        if found is None:
            return culprit.name
        thing = found["path"].strip("_") + (f" in {culprit.module}" if culprit.module else "")
    if found["way"] == "backward":
        thing = f"the backward of {thing}"
    item = (found["item"] or "").strip(".")
    return f"{item.replace('.', ' ', 1)} of {thing}" if item else thing
