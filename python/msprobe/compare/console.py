# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a comparison in a few lines for a terminal."""

from __future__ import annotations

import os

from msprobe.compare.verdict_file import sentence
from msprobe.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import TextIO

    from msprobe.compare.result import CompareResult
    from msprobe.compare.verdict_file import Culprit

_RESET = "\x1b[0m"
_BOLD, _DIM, _RED, _GREEN = "\x1b[1m", "\x1b[2m", "\x1b[1;31m", "\x1b[1;32m"

_FRAMES = 2
_MOST_LEFT_OUT = 5


def wants_colour(stream: TextIO) -> bool:
    """Whether `stream` is a terminal that shows colours and nobody asked for none (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console_text(
    result: CompareResult, culprits: list[Culprit], files: Sequence[Path] = (), *, colour: bool = False
) -> str:
    """The verdict, the candidates and where the reports are. `files`: what was written, best first."""
    paint = _Paint(colour)
    lines = [paint(_GREEN if result.agree else _RED, sentence(result))]
    for place, culprit in enumerate(culprits, 1):
        lines += _culprit_lines(place, culprit, paint)
    lines += [paint(_DIM, f"  note: {printable(note)}") for note in result.verdict.notes]
    lines += [
        paint(_DIM, f"  not compared: {printable(one.what)} ({printable(one.reason)})")
        for one in result.left_out[:_MOST_LEFT_OUT]
    ]
    if len(result.left_out) > _MOST_LEFT_OUT:
        lines.append(paint(_DIM, f"  not compared: {len(result.left_out) - _MOST_LEFT_OUT} more"))
    lines += [f"  {printable(str(path))}" for path in files]
    return "\n".join(lines) + "\n"


class _Paint:
    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def __call__(self, code: str, text: str) -> str:
        return f"{code}{text}{_RESET}" if self._colour else text


def _culprit_lines(place: int, culprit: Culprit, paint: _Paint) -> list[str]:
    lines = [
        f"  {place}. {paint(_BOLD, culprit.where)}",
        f"     step {culprit.step}, rank {culprit.rank}, confidence {culprit.confidence:.0%}",
        f"     {printable(culprit.reason)}",
    ]
    return lines + [paint(_DIM, f"     at {printable(frame.text)}") for frame in culprit.top_frames(_FRAMES)]
