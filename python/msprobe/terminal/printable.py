# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Text for one line of a terminal."""

from __future__ import annotations


def beside(said: str, text: str) -> str:
    """What of a text is new behind what was said: "module a.norm: eps" of "module a.norm: eps = 0.1
    (reference: 1e-05)" behind "a.norm.eps = 0.1 (reference: 1e-05)". A single word at both ends is kept.
    """
    old, words = said.split(" "), text.split(" ")
    same = 0
    while same < min(len(old), len(words)) and old[-1 - same] == words[-1 - same]:
        same += 1
    return " ".join(words[: len(words) - same]) if same > 1 else text


def printable(text: str) -> str:
    """A name comes from a file or a command line: it must not break the line or command the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)
