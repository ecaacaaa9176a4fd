# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison blames: a finding of the verdict with its lines of code, and in plain words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from msprobe.terminal.printable import beside, printable

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
_PACKAGES = ("/site-packages/", "/dist-packages/")
_NOT_OF_THE_USER = (*_PACKAGES, "/lib/python3", "<frozen ", "<string>")
# What every call comes by, and the script of a command: `msprobe run` is started by one.
_BETWEEN = re.compile(r"/(?:site|dist)-packages/(?:torch|torch_npu|msprobe)/|/(?:bin|Scripts)/msprobe[^/]*$")


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
        return self.is_of_program and not any(part in str(self.file) for part in _NOT_OF_THE_USER)

    @property
    def is_of_program(self) -> bool:
        """The user's own, or of a library that is trained with: not in torch, msprobe or Python itself."""
        file = (self.file or "<string>").replace("\\", "/")
        if any(part in file for part in _PACKAGES):
            return _BETWEEN.search(file) is None
        return _BETWEEN.search(file) is None and not any(part in file for part in _NOT_OF_THE_USER)

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
class Texts:
    """A finding in words."""

    plain: str
    chinese: str
    """In plain words, and on a second line by the names of the files."""
    sum: str
    """What is allowed and what was found, in lines."""


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
    because: list[tuple[str, list[str]]] = field(default_factory=list)
    """What `reason` says, for programs: words of docs/formats/verdict.md and what they are about."""
    sum: dict[str, object] = field(default_factory=dict)
    """What the place may be off by, and why; empty: it has no distance."""
    texts: Texts = field(default_factory=lambda: Texts("", "", ""))
    replay: Replay | None = None
    """None: not asked for."""
    ranks: tuple[int, ...] = ()
    """All in which this step has it; `rank` is the first of them."""

    def top_frames(self, most: int) -> list[Frame]:
        """The innermost frame of the program, be it in a library, and then those of the user's own code; of
        any code when there are none.
        """
        innermost = next((frame for frame in self.stack if frame.is_of_program), None)
        own = [frame for frame in self.stack if frame.is_of_user and frame is not innermost]
        found = own if innermost is None else [innermost, *own]
        return (found or self.stack)[:most]

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
        return printable(self.texts.plain)

    @property
    def sum_text(self) -> str:
        """`sum` in lines, with what was found."""
        return _printable_lines(self.texts.sum)

    @property
    def node(self) -> str:
        """The node of a graph that shows it; empty: none."""
        return self.record or self.reference_record or _NODES.get(self.kind, "")

    def in_a_graph(self, language: Literal["en", "zh"]) -> str:
        """What a graph says at this node: in plain words, and on a second line by the names of the files."""
        if language == "zh":
            return _printable_lines(self.texts.chinese)
        new = beside(self.plain, printable(self.reason))
        return f"{self.plain}\n{self.where}" + (f": {new}" if new and new not in self.where else "")


# Where a graph shows what belongs to no call.
_NODES = {
    "optimizer_setting": "optimizer",
    "optimizer_state": "optimizer",
    "update": "optimizer",
    "clipping": "clip_grad",
}


def _printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def culprits_of(verdict: Verdict, frames_of: FramesOf | None = None) -> list[Culprit]:
    """The culprits of a verdict, best first. `frames_of`: the frames of a finding, as in stack.json."""
    return [
        _culprit(finding, place, [parse_frame(text) for text in (frames_of(finding) if frames_of else [])])
        for place, finding in enumerate(verdict.culprits)
    ]


def _culprit(finding: Finding, place: int, stack: list[Frame]) -> Culprit:
    at = _line_of(stack)
    return Culprit(
        kind=finding.kind,
        name=finding.name,
        module=finding.module,
        operator=finding.operator,
        step=finding.step,
        rank=finding.rank,
        reason=finding.reason,
        confidence=round(finding.confidence(place), 3),
        metrics=_metrics(finding),
        stack=stack,
        record="" if finding.is_of_reference else finding.record,
        reference_record=finding.record if finding.is_of_reference else "",
        because=finding.because,
        sum=finding.sum if finding.sum["rule"] else {},
        texts=Texts(
            finding.plain(at),
            f"{finding.plain(at, 'zh')}\n{finding.said('zh')}",
            finding.sum_text(),
        ),
    )


def _metrics(finding: Finding) -> dict[str, object]:
    """The numbers behind a finding; of a setting the two values."""
    if finding.target_value or finding.reference_value:
        return {"target": finding.target_value, "reference": finding.reference_value}
    if math.isinf(finding.distance):
        return {}
    return {"distance": finding.distance, "explained": finding.explained}


def _line_of(stack: list[Frame]) -> str:
    """The innermost line of the program, be it in a library: "model.py:30"."""
    frame = next((one for one in stack if one.is_of_program), stack[0] if stack else None)
    if frame is None or frame.file is None:
        return ""
    return printable(f"{PurePosixPath(frame.file.replace(chr(92), '/')).name}:{frame.line}")


def parse_frame(text: str) -> Frame:
    """Of stack.json: "File train.py, line 12, in forward, " and the line of source below it."""
    found = _FRAME.fullmatch(text.strip())
    if found is None:
        return Frame(None, None, "", text.strip())
    return Frame(found["file"], int(found["line"]), found["function"].strip(), (found["code"] or "").strip())


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
