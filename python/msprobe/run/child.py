# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run in a process of its own, for a program or a notebook that asks for it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from msprobe.files.regular_file import read_text
from msprobe.files.run_folder import RUN_FILE
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

_PREFIX = "msprobe run: error: "


def run_program(output: Path, options: list[str], words: list[str]) -> tuple[int, dict[str, str], int]:
    """Exit code, what was recorded by rank 0, and the number of steps. What the program prints is printed
    line by line. Raises InvalidArgument where it was not begun.
    """
    command = [sys.executable, "-m", "msprobe", "run", "-o", str(output), *options, *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="backslashreplace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(_PREFIX):
                process.wait()
                said = line[len(_PREFIX) :].strip().replace("--force", "force=True")
                raise InvalidArgument(f"run: {said.partition('; see msprobe run')[0]}")
            print(line, end="")
    content = _run_file(output)
    recorded, steps = content.get("recorded"), content.get("steps")
    return (
        process.returncode,
        {str(part): str(path) for part, path in recorded.items()} if isinstance(recorded, dict) else {},
        steps if isinstance(steps, int) else 0,
    )


def _run_file(output: Path) -> dict[str, object]:
    """That of the lowest rank; empty where there is none."""
    try:
        names = sorted((path for path in output.iterdir() if RUN_FILE.fullmatch(path.name)), key=str)
        content = json.loads(read_text(names[0])) if names else {}
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
