# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Faults in the source of a library, and healthy differences, through `msprobe run` and `msprobe diagnose`:
the answers are those of docs/verdict_library.md, which says which are wrong.

MSPROBE_TEST_SLOW=library, with transformers: the table of library/table.py, some minutes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/verdict_library.md"

LINE = re.compile(r"^\* `(.+)`, (\w+): (.+)$", re.M)
"""Column, outcome and name of a wrong answer."""


def test_the_page_says_which_answers_are_wrong() -> None:
    """Of faults as many as its table counts."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [
        line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| (faults|healthy)", line)
    ]
    assert rows
    counted = sum(int(cell or 0) for row in rows for cell in row[5:])
    assert counted == len(LINE.findall(text))


@pytest.mark.skipif(
    "library" not in os.environ.get("MSPROBE_TEST_SLOW", ""), reason="MSPROBE_TEST_SLOW=library runs it"
)
def test_answers_are_those_of_the_page(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    results = tmp_path / "results.json"
    words = [sys.executable, str(HERE / "library/table.py"), str(tmp_path / "out"), "-o", str(results)]
    subprocess.run(words, check=True, timeout=3600)
    cells = json.loads(results.read_text())["cells"]
    wrong = {
        (column, cell["outcome"], name)
        for column, items in cells.items()
        for name, cell in items.items()
        if cell["outcome"] not in ("first", "clear")
    }
    assert wrong <= {tuple(line) for line in LINE.findall(PAGE.read_text(encoding="utf-8"))}
