# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Whatever shows the verdict names the same culprit: console, verdict.json, report, JUnit, the files of a
diagnosis, and the graph that the viewer opens.
"""

from __future__ import annotations

import html
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from test_pairs import _record

NAME = "silu_bfloat16"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faces")
    for side in ("golden", "target"):
        _record(NAME, "diagnose", folder / side)
    return folder


def ask(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "msprobe", *map(str, words)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1, done.stderr
    return done.stdout + done.stderr


def text_of(path: Path) -> str:
    return html.unescape(path.read_text(encoding="utf-8"))


def test_all_name_the_same_culprit(runs: Path) -> None:
    golden, target = runs / "golden/run", runs / "target/run"
    formats = ("--format", "csv", "--format", "junit")
    console = ask("compare", golden / "dump", target / "dump", "-o", runs / "compare", *formats)
    culprit = json.loads((runs / "compare/verdict.json").read_text())["culprits"][0]
    name = culprit["name"]
    assert name
    assert name in console
    for file in ("report.html", "junit.xml"):
        assert name in text_of(runs / "compare" / file), file

    console = ask("diagnose", golden, target, "-o", runs / "answer")
    cause = json.loads((runs / "answer/diagnose.json").read_text())["cause"]
    assert cause["name"].endswith(name)
    assert (cause["step"], cause["module"]) == (culprit["step"], culprit["module"])
    assert name in console
    assert name in text_of(runs / "answer/index.html")
    inner = json.loads((runs / "answer/dump/verdict.json").read_text())["culprits"][0]
    assert inner["name"] == name
    (graph,) = (runs / "answer/graph").glob("*.vis.db")
    with sqlite3.connect(graph) as database:
        query = "SELECT sentence FROM msprobe_findings ORDER BY number LIMIT 1"
        (first,) = database.execute(query).fetchone()
    assert name in first
