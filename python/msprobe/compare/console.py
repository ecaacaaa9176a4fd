# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a comparison in a few lines for a terminal."""

from __future__ import annotations

from msprobe.files.left_out import lines as missing_lines
from msprobe.files.ranges import numbers
from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.compare.culprit import Culprit
    from msprobe.compare.result import CompareResult

_FRAMES = 2


def console_text(
    result: CompareResult, culprits: list[Culprit], files: Sequence[Path] = (), paint: Paint = PLAIN
) -> str:
    """The verdict, the candidates and where the reports are. `files`: what was written, best first."""
    answer = result.answer(culprits)
    lines = [paint.answer(answer, good=result.agree)]
    lines += [f"  not compared: {printable(one)}" for one in missing_lines(result.left_out, beside=answer)]
    for place, culprit in enumerate(culprits, 1):
        lines += _culprit_lines(place, culprit, paint)
    if result.offset:
        lines.append(paint.faint(f"  note: {began(result.offset)}"))
    lines += [paint.faint(f"  note: {printable(note)}") for note in result.verdict.notes]
    lines += [f"  {printable(str(path))}" for path in files]
    return "\n".join(lines) + "\n"


def began(offset: int) -> str:
    return f"the target begins at step {offset} of the reference, whose steps are named"


def _culprit_lines(place: int, culprit: Culprit, paint: Paint) -> list[str]:
    lines = [
        f"  {place}. {paint.strong(culprit.where)}",
        f"     step {culprit.step}, {numbers('rank', culprit.ranks or [culprit.rank])}, confidence "
        f"{culprit.confidence:.0%}",
        f"     {printable(culprit.reason)}",
    ]
    if place > 1:  # the first stands in the sentence
        lines.insert(1, f"     {culprit.plain}")
    if culprit.replay is not None:
        lines.append(f"     replay: {culprit.replay.answer}: {printable(culprit.replay.reason)}")
    return lines + [paint.faint(f"     at {printable(frame.text)}") for frame in culprit.top_frames(_FRAMES)]
