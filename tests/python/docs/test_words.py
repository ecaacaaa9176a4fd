# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One word for each thing: those that docs/glossary.md retires are in no page, message or docstring."""

from __future__ import annotations

import re

import pytest
from doc_blocks import REPOSITORY

GLOSSARY = REPOSITORY / "docs/glossary.md"
RETIRED = re.findall(
    r"^\| ([^|]+?) \| [^|]+ \|$",
    GLOSSARY.read_text(encoding="utf-8").partition("## Words that are not used")[2].partition("|---|---|")[2],
    re.MULTILINE,
)
# Decisions and what was released say what they said.
_HISTORY = ("docs/adr/", "CHANGELOG.md")
_WHERE = (
    "README.md",
    "SKILL.md",
    "docs/**/*.md",
    "python/msprobe/**/*.py",
    "python/msprobe/**/*.pyi",
    "python/msprobe/**/*.json",
    "cpp/**/*.h",
    "cpp/**/*.cpp",
    "bindings/**/*.h",
    "bindings/**/*.cpp",
    "viewer/src/**/*.ts*",
    "viewer/src/**/*.js",
    "viewer/tests/sentences.json",
    "tests/data/cli/*.txt",
    "examples/**/*.md",
    "examples/**/*.py",
    "*.md",
    "packaging/*.md",
)
FILES = sorted(
    path
    for pattern in _WHERE
    for path in REPOSITORY.glob(pattern)
    if path != GLOSSARY and not str(path.relative_to(REPOSITORY)).startswith(_HISTORY)
)


def test_the_table_is_read() -> None:
    assert len(RETIRED) > 5
    assert len(FILES) > 300


@pytest.mark.parametrize("word", RETIRED)
def test_a_retired_word_is_nowhere(word: str) -> None:
    # Words of Chinese have no space around them.
    text = rf"(?<![a-z0-9_]){re.escape(word)}(?![a-z0-9_])"
    pattern = re.compile(text.replace(r"\ ", r"(?: +|\n[ #*/]+)"), re.IGNORECASE)
    found = [
        f"{path.relative_to(REPOSITORY)}: {match[0]}"
        for path in FILES
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []
