# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe bisect: exit code 0 when the check passes unchanged, 1 changes found, 3 none found, 2 on errors."""

from __future__ import annotations

import sys
from pathlib import Path

from msprobe.terminal.command_line import Parser, add_force, add_limits, add_screen, whole_number

_EPILOG = """exit code: 0 the check passes without any change, 1 the changes are found with which it passes,
3 it passes with none of them, 2 an error. Of the check: 0 passes, 125 cannot be told, every other one fails;
{run} in it is the folder of the run, output.txt in there what the training printed.
example: msprobe bisect --check 'grep -q "loss 0.1" {run}/output.txt' --modules precision=float32 \\
           'python train.py'"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    from msprobe.bisect.answer import FILE, console_text
    from msprobe.bisect.experiment import Bisection, bisect
    from msprobe.experiment.changes import check
    from msprobe.experiment.command_line import parse_command
    from msprobe.experiment.plan import parse_change
    from msprobe.experiment.results import new_experiment
    from msprobe.terminal.colour import Paint

    if not asked.set and not asked.modules:
        parser.error("expected --set NAME=VALUE or --modules KIND=VALUE: what is tried")
    changes = tuple(map(parse_change, asked.set))
    check(changes)
    output = Path(asked.output).absolute()
    command, oracle = parse_command(asked.command), parse_command(asked.check)
    new_experiment(output, FILE, ("[0-9]*",), force=asked.force)

    def said(text: str) -> None:
        if not asked.quiet:
            print(f"msprobe: {text}", file=sys.stderr, flush=True)

    answer = bisect(
        Bisection(
            command,
            oracle,
            output,
            changes,
            asked.modules,
            asked.first,
            asked.stop,
            asked.limit,
            asked.max_runs,
            said,
        )
    )
    if asked.json:
        sys.stdout.write(answer.json())
    elif not asked.quiet:
        sys.stdout.write(console_text(answer, output, Paint(sys.stdout)))
    return answer.exit_code


def _parser() -> Parser:
    parser = Parser(
        prog="msprobe bisect",
        description="Finds the least of some changes with which a check of yours passes: runs the training "
        "with some of them again and again, and asks the check of each run.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("command", metavar="COMMAND", help="starts the training")
    add("--check", metavar="COMMAND", required=True, help="exit code 0: the run is as it should be")
    add(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a change, as msprobe run takes it; may be repeated",
    )
    add(
        "--modules",
        metavar="KIND=VALUE",
        default="",
        help="a change of every module, precision=float32 or transplant=RUN: the smallest modules are found",
    )
    add("--first", action="store_true", help="also find the latest step from which on they have to hold")
    add("-o", "--output", metavar="OUT", default="./bisect", help="folder for the runs (default: ./bisect)")
    add("--stop", metavar="N", type=whole_number, help="end each run after N steps (default: as it ends)")
    add_limits(parser)
    add_force(parser)
    add_screen(parser, "print the answer as JSON, as in bisect.json")
    return parser
