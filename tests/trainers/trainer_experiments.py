# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What resumes.py and trainer_hunts.py share: experiments of msprobe with trainings of libraries, one after
the other, and a table of the answers. The trainers are those of the interpreter that runs this; what is not
installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_QUIET = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
}


def start_of(script: Path, *arguments: str) -> str:
    """A command that starts a training."""
    return shlex.join([sys.executable, "-W", "ignore", str(script), *arguments])


def answer_of(folder: Path, command: str, options: list[str]) -> tuple[dict[str, Any], str]:
    """What `msprobe COMMAND` writes below `folder`, which is made anew; empty: it fails. And its messages."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = [sys.executable, "-m", "msprobe", command, "--quiet", "-o", "out", *options]
    ended = subprocess.run(words, cwd=folder, env={**os.environ, **_QUIET}, capture_output=True, text=True)
    file = folder / f"out/{command}.json"
    return (json.loads(file.read_text()) if file.exists() else {}), ended.stderr


def make_table(
    description: str | None,
    head: list[str],
    cases: Iterable[tuple[str, str, str]],
    row: Callable[[Path, str, str], str],
) -> int:
    """The command: OUT [--only REGEX] [--page FILE]. cases: the package that is needed, the trainer, and what
    is done to it, of which row() makes a line of the table.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    lines = head
    for package, trainer, kind in cases:
        if re.search(asked.only, f"{trainer} {kind}") and importlib.util.find_spec(package) is not None:
            lines.append(row(asked.out.resolve(), trainer, kind))
            print(lines[-1], flush=True)
    if asked.page:
        asked.page.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return 0
