# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The tutorial docs/first_hour.md: its commands run as they stand there, and print what stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from msprobe.diagnose.answer import STAGES
from msprobe.run.command import _parser

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = (REPOSITORY / "docs/first_hour.md").read_text(encoding="utf-8")


def blocks(language):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def without_parameter(line: str) -> str:
    """Which of several gradients that differ comes first depends on how the processor rounds."""
    return re.sub(r"(?<=gradient of )layers\.\d+\.[\w.]+", "...", line)


def test_three_commands_find_the_fault(tmp_path):
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    commands = blocks("sh")[0].splitlines()
    assert len(commands) == 3
    outputs = []
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "msprobe"
        run = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert run.returncode == (1 if words[1] == "diagnose" else 0), run.stderr
        outputs.append(run.stdout)
    said = [without_parameter(line) for line in outputs[-1].splitlines()]
    for line in blocks("")[0].splitlines():
        assert without_parameter(line) in said
    a, b = (
        [float(line.split()[-1]) for line in text.splitlines()] for text in outputs[:2]
    )  # "the losses differ by 0.0001"
    assert a[0] == b[0]
    assert 0 < max(abs(x - y) for x, y in zip(a, b)) <= 0.0002


def test_every_option_is_in_the_page():
    options = re.findall(r"^\s+(?:-\w, )?(--?[\w-]+)", _parser("run").format_help(), re.MULTILINE)
    missing = [option for option in options if f"`{option}" not in PAGE and option not in ("-h", "-m")]
    assert [option for option in missing if option not in ("--help", "--config", "--output")] == []


def test_the_walk_of_the_page_is_that_of_the_command():
    titles = re.findall(r"^  ([A-Z][a-z]+(?: [a-z]+)*) {2,}", blocks("")[0], re.MULTILINE)
    assert titles == [title for _, title, _ in STAGES]
