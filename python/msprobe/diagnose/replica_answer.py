# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The replica check of one run: replicas.json (docs/formats/diagnose.md), and the answer on the screen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.left_out import lines as missing_lines
from msprobe.files.new_results import new_results
from msprobe.layout.job import open_job
from msprobe.layout.replicas import NOT_SEEN, check_replicas
from msprobe.native import InvalidArgument
from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.layout.replicas import ReplicaResult

FILE = "replicas.json"
_MOST_LINES = 5


def write_answer(run: Path, output: Path, *, force: bool) -> ReplicaResult:
    """Raises InvalidArgument, NothingToCompare and IoError."""
    if output.resolve() == run.resolve():
        raise InvalidArgument(f"{output}: is the run itself; choose another -o")
    result = check_replicas(open_job(run))
    with new_results(output, (FILE,), force=force):
        make_directory(output)
        write_text(output / FILE, json.dumps(result.content(run), indent=1) + "\n")
    return result


def console_text(result: ReplicaResult, output: Path, paint: Paint = PLAIN) -> str:
    lines = [paint.answer(printable(result.sentence), good=result.status == "equal")]
    lines += [f"  not compared: {printable(one)}" for one in missing_lines(result.left_out)]
    if result.mismatches:
        first, *others = result.mismatches
        lines += [f"  {printable(first.why)}", f"  {printable(first.should)}"]
        if others:
            lines += ["", f"  {len(others)} more in this step:"]
            lines += [f"    {printable(one.sentence)}" for one in others[:_MOST_LINES]]
    lines += [f"  note: {printable(one)}" for one in result.notes]
    lines += ["", "  what should be equal, and why:"]
    lines += [f"    {printable(one)}" for one in result.layout[:_MOST_LINES]]
    if result.unknown:
        lines.append(
            f"    {result.unknown} more values are on several ranks, and nothing says that they are copies"
        )
    lines += ["  what this cannot see:", *(f"    {one}" for one in NOT_SEEN)]
    return "\n".join([*lines, "", f"  {printable(str(output / FILE))}"]) + "\n"
