# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""viewer/tests/sentences.json has an example of every sentence that the page may have to say in Chinese; the
tests of the page see that each one has its Chinese. Here: no source says a sentence without an example."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES: dict[str, list[str]] = json.loads((ROOT / "viewer/tests/sentences.json").read_text("utf-8"))
PACKAGE = ROOT / "python/msprobe"
MERGE = ROOT / "cpp/src/graph/merge"
# Those that write notes of a merge; what the others say goes to a terminal.
NOTING = [
    path for path in sorted(MERGE.glob("*.cpp")) if re.search("notes|ShardMerge", path.read_text("utf-8"))
]

REFUSING = {"InvalidArgument", "FormatError", "IoError", "_refused", "_refuse"}
KEPT = {"fault", "_fault", "FAILED", "last"}  # names of what is said later
ONLY_IN_A_TERMINAL = {"command.py", "export.py"}
VIEWER = [path for path in sorted((PACKAGE / "viewer").glob("*.py")) if path.name not in ONLY_IN_A_TERMINAL]


def words_in(nodes: Iterator[ast.AST]) -> list[str]:
    """What is written in string literals, without what joins the members of a list."""
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in texts if re.search("[a-z]{2}", text)]


def refusals(tree: ast.AST) -> list[str]:
    """What is raised, kept as a fault or answered."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in REFUSING:
            said = [text for part in node.args for text in words_in(ast.walk(part))]
            found += [text for text in said if is_sentence(text)]
        elif isinstance(node, ast.Assign) and _name(node.targets[0]) in KEPT:
            found += words_in(ast.walk(node.value))
    return found


def _name(node: ast.expr) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def is_sentence(text: str) -> bool:
    return " " in text.strip()


def literals(text: str) -> list[str]:
    """Of C++, but for errors and comments."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"(?:throw|refuse\(|static_assert|#include)[^;\n]*(?:;|\n)[^;]*?(?=;|\n)", "", text)
    found = [match.replace('\\"', '"') for match in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)]
    return [one for one in found if re.search(r"[A-Za-z]{2,} ", one) or re.search(r" [A-Za-z]{2,}", one)]


def assert_covered(path: Path, said: list[str]) -> None:
    examples = EXAMPLES.get(path.relative_to(ROOT).as_posix(), [])
    missing = [text for text in said if not any(text.strip() in example for example in examples)]
    assert missing == [], "give viewer/tests/sentences.json an example of each, and the page its Chinese"


@pytest.mark.parametrize("path", VIEWER, ids=lambda path: path.name)
def test_every_refusal_of_the_viewer_has_an_example(path: Path) -> None:
    assert_covered(path, refusals(ast.parse(path.read_text("utf-8"))))


@pytest.mark.parametrize(
    "path",
    [ROOT / "cpp/src/graph/unmatched_reason.cpp", *NOTING],
    ids=lambda path: path.name,
)
def test_every_sentence_in_a_file_of_graphs_has_an_example(path: Path) -> None:
    said = literals(path.read_text("utf-8"))
    assert said
    assert_covered(path, said)


def test_a_sentence_without_an_example_is_found() -> None:
    tree = ast.parse('def f(x):\n    """Raises."""\n    raise InvalidArgument(f"{x} is of a kind to come")')
    assert refusals(tree) == [" is of a kind to come"]
    assert literals('return name + " is of a kind to come"; // "a comment here"') == [" is of a kind to come"]
    with pytest.raises(AssertionError):
        assert_covered(VIEWER[0], [" is of a kind to come"])
