# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""diagnose.json (docs/formats/diagnose.md), and the answer on the screen."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.diagnose.answer import STAGES, stage_status
from msprobe.files.left_out import joined
from msprobe.files.left_out import lines as missing_lines
from msprobe.native import __version__
from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from msprobe.diagnose.answer import Answer
    from msprobe.diagnose.cause import Cause

FILE = "diagnose.json"
PAGE = "index.html"

_MOST_FRAMES = 2
_MOST_OTHERS = 3
MOST_NOTICED = 3  # the report of the dumps has all


def answer_json(answer: Answer, a: Path, b: Path, output: Path) -> str:
    content = {
        "format": 4,
        "msprobe": __version__,
        "status": answer.status,
        "sentence": answer.sentence,
        "cause": None if answer.cause is None else _cause(answer.cause),
        "ignored": [_cause(cause) for cause in answer.ignored],
        "others": [_cause(cause) for cause in answer.others],
        "stages": [
            dict(zip(("stage", "status", "sentence"), (stage, *stage_status(stage, answer))))
            for stage, _, _ in STAGES
        ],
        "parts": [
            {
                "part": part.part,
                "status": part.status,
                "sentence": part.sentence,
                "report": None if part.report is None else relative(part.report, output),
                "first_step": part.first_step,
                "clear_step": part.clear_step,
                "steps": list(part.steps),
                "evidence": list(part.evidence),
            }
            for part in answer.parts
        ],
        "not_compared": [one.content for one in joined(answer.not_compared)],
        "missing": [asdict(missing) for missing in answer.missing],
        "graph": None if answer.graph is None else relative(answer.graph, output),
        "next": list(answer.next_commands),
        "notes": list(answer.notes),
        "noticed": list(answer.noticed),
        "inputs": {"reference": str(a), "target": str(b)},
    }
    return json.dumps(content, indent=1) + "\n"


def _cause(cause: Cause) -> dict[str, Any]:
    return {**asdict(cause), "where": cause.where}


def relative(path: Path, folder: Path) -> str:
    """As a page in `folder` links it."""
    return Path(os.path.relpath(path, folder)).as_posix()


def console_text(answer: Answer, output: Path, paint: Paint = PLAIN) -> str:
    """A few lines: the answer, its reason, what is missing, and where the page is."""
    lines = [paint.answer(printable(answer.sentence), good=answer.follows)]
    unseen = missing_lines(answer.not_compared, beside=answer.sentence)
    lines += [f"  not compared: {printable(one)}" for one in unseen]
    lines += [f"  noticed: {printable(one)}" for one in answer.noticed[:MOST_NOTICED]]
    if answer.cause is not None:
        lines.append(f"  {_reason(answer)} (confidence {answer.cause.confidence:.0%})")
        lines += _frames(answer.cause)
    lines += ["", *(_stage_line(answer, stage, title) for stage, title, _ in STAGES)]
    lines += [f"  ignored: {cause.line}" for cause in answer.ignored[:_MOST_OTHERS]]
    if answer.others:
        lines += ["", "  less likely, or a consequence:"]
        lines += [f"    {cause.line}" for cause in answer.others[:_MOST_OTHERS]]
    for missing in answer.missing:
        lines += ["", f"  missing: {printable(missing.what)}: {printable(missing.why)}"]
        lines += [f"    {printable(command)}" for command in missing.commands]
    if answer.next_commands:
        lines += ["", *(f"  next: {printable(command)}" for command in answer.next_commands)]
    lines += [f"  note: {printable(note)}" for note in answer.notes]
    return "\n".join([*lines, "", f"  {printable(str(output / PAGE))}"]) + "\n"


def _reason(answer: Answer) -> str:
    """Without what the sentence says already: then the name of the place in the files."""
    assert answer.cause is not None
    reason = printable(answer.cause.reason)
    return answer.cause.where if reason in answer.sentence else reason


def _frames(cause: Cause) -> list[str]:
    """The lines of the target; of the reference those of a call that only this one makes."""
    frames = cause.stack or cause.reference_stack
    where = "" if cause.stack else " (reference)"
    return [f"  at {printable(frame)}{where}" for frame in frames[:_MOST_FRAMES]]


def _stage_line(answer: Answer, stage: Any, title: str) -> str:
    word, sentence = stage_status(stage, answer)
    return f"  {title:26} {word:12}  {printable(sentence)}".rstrip()
