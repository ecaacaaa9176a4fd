# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Text for one line of a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """A name comes from a file or a command line: it must not break the line or command the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)
