# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe grad_export: a gradient record in the other layout. Exit code 0, or 2 on errors."""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

from msprobe.terminal.command_line import Parser, add_force, add_screen
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Literal

_RANK = re.compile(r"rank(0|[1-9][0-9]{0,8})", re.ASCII)
_RESULTS = (
    "rank[0-9]*/notes.json",
    "rank[0-9]*/gradients.msprobe",
    "rank[0-9]*/grad_summary_*.csv",
    "rank[0-9]*/step[0-9]*/*.npy",
)


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if not os.path.isdir(options.record):
        parser.error(f"{options.record}: expected the folder of a gradient record, or that of msprobe run")
    from msprobe.files.new_results import new_results
    from msprobe.native import log_on_stderr

    with (
        log_on_stderr("ERROR" if options.quiet else "WARNING"),
        new_results(Path(options.output), _RESULTS, force=options.force),
    ):
        steps = export(options.record, options.output, options.layout, shows_progress=not options.quiet)
    if options.json:
        print(json.dumps({"output": options.output, "layout": options.layout, "ranks": steps}, indent=1))
    elif not options.quiet:
        several = f"{len(steps)} rank{'' if len(steps) == 1 else 's'}, {sum(steps.values())} steps"
        print(printable(f"{options.output}: {several}"))
    return 0


def export(
    record: str | os.PathLike[str],
    output: str | os.PathLike[str],
    layout: Literal["npy", "packed"],
    *,
    shows_progress: bool = False,
) -> dict[int, int]:
    """Writes a record to `output`/rank{R} in another layout; the number of steps of each rank. Raises
    InvalidArgument, IoError, FormatError.
    """
    from msprobe.files.atomic_file import write_text
    from msprobe.files.regular_file import read_text
    from msprobe.files.run_folder import gradients_of
    from msprobe.grad_probe.probe import NOTES
    from msprobe.native import InvalidArgument, core
    from msprobe.terminal.progress import Progress

    folder = gradients_of(Path(record))
    found = {int(match[1]): name for name in os.listdir(folder) if (match := _RANK.fullmatch(name))}
    if not found:
        raise InvalidArgument(f"{folder}: expected a gradient record, with folders rank0, rank1, ...")
    steps = {}
    with Progress("ranks", shown=shows_progress) as progress:
        for rank, name in sorted(found.items()):
            steps[rank] = core.convert_gradients(folder / name, output, rank, layout)
            notes = folder / name / NOTES
            if notes.exists():
                write_text(Path(output, name, NOTES), read_text(notes))
            progress(len(steps), len(found))
    return steps


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe grad_export",
        description="Writes a gradient record in the layout of mindstudio-probe (a csv for each step, a file "
        "of signs for each parameter and step), or packs one of that layout into one file for each rank.",
        epilog="exit code: 0 done, 2 an error\nexample: msprobe grad_export run_a -o gradients",
    )
    parser.add_argument("record", metavar="RECORD", help="folder of a gradient record, or of msprobe run")
    parser.add_argument(
        "-o", "--output", metavar="OUT", required=True, help="folder for the results, made if needed"
    )
    parser.add_argument(
        "--layout",
        choices=("npy", "packed"),
        default="npy",
        help="npy: that of mindstudio-probe (default); packed: one file for each rank",
    )
    add_force(parser)
    add_screen(parser, "print what was written as JSON")
    return parser
