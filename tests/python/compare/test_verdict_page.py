# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""docs/verdict.md says what the code does: its tables are made from it, and its example compiles."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from msprobe.compare.verdict_page import with_tables
from msprobe.native import core

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = (REPOSITORY / "docs/verdict.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_code() -> None:
    assert with_tables(PAGE) == PAGE, "python -m msprobe.compare.verdict_page docs/verdict.md"
    assert all(f"| `{name}` | {value:g} |" in PAGE for name, value, _ in core.verdict_numbers())
    assert all(f"| {name} |" in PAGE for name, _, _ in core.verdict_rules())


def test_it_can_be_read_in_ten_minutes() -> None:
    text = re.sub(r"<!-- table of.*?<!-- end of table -->", "", PAGE, flags=re.DOTALL)
    assert len(text.split()) < 1500


def test_the_example_compiles_against_the_headers_that_are_installed(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    example = re.search(r"```cpp\n(.*?)```", PAGE, flags=re.DOTALL)
    assert example is not None
    source = tmp_path / "example.cpp"
    source.write_text(example[1], encoding="utf-8")
    words = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", f"-I{REPOSITORY / 'cpp/include'}"]
    done = subprocess.run([*words, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
