# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Colours of what a command says."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import TextIO


class Paint:
    """Colours text for `stream`: a terminal that shows colours, unless nobody wants them (no-color.org).
    Without a stream, and for any other, texts stay as they are.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._colours = (
            stream is not None
            and stream.isatty()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )

    def answer(self, text: str, *, good: bool) -> str:
        """The sentence a command answers with."""
        return self._painted("1;32" if good else "1;31", text)

    def strong(self, text: str) -> str:
        return self._painted("1", text)

    def faint(self, text: str) -> str:
        return self._painted("2", text)

    def _painted(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text


PLAIN = Paint()
