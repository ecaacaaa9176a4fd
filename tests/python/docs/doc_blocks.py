# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The fenced blocks of the documentation.

A comment right above a block says what the tests do with it:

    <!-- not run: REASON -->    commands that cannot run here
    <!-- file: NAME -->         the text of the block is written to NAME, for the commands below it
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
PAGES = sorted(
    path
    for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "examples/*/README.md")
    for path in REPOSITORY.glob(pattern)
)

_FENCE = re.compile(r"^( *)(`{3,})(.*)$")
_NOTE = re.compile(r"^ *<!-- (not run|file): (.+) -->$")


@dataclass(frozen=True)
class Block:
    """`line`: of the opening fence, from 1. `not_run`, `file`: of the comment above, or empty."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""
    file: str = ""

    def __str__(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    found = []
    lines = page.read_text(encoding="utf-8").splitlines()
    note: dict[str, str] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if opening := _FENCE.match(line):
            indent, fence, language = opening.groups()
            begin = number
            while number < len(lines) and lines[number].strip() != fence:
                number += 1
            text = "".join(f"{inner[len(indent) :]}\n" for inner in lines[begin:number])
            number += 1
            found.append(Block(page, begin, language.strip(), text, **note))
            note = {}
        elif told := _NOTE.match(line):
            note = {told[1].replace(" ", "_"): told[2]}
        elif line.strip():
            note = {}
    return found


def console_commands(text: str) -> list[tuple[str, list[str]]]:
    """Commands of a block of language console, behind `$ `, each with the lines that are shown below it."""
    commands: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif commands:
            commands[-1][1].append(line)
    return commands
