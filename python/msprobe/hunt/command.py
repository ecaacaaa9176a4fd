# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe hunt: exit code 0 when nothing parts, 1 cause proved, 3 not proved, 2 on errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msprobe.terminal.command_line import Parser, add_force, add_limits, add_screen, whole_number

_EPILOG = """exit code: 0 the target follows the reference, 1 the cause is found and proved, 3 it is not
proved, 2 an error.
Each run has a working directory of its own, in which the files of this one are seen and none is changed;
{run} in a command is the folder of the run. A hunt that was interrupted goes on when it is called again.
example: msprobe hunt -o hunted --reference 'python train.py' --target 'python train.py --new-kernel'"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    from msprobe.experiment.command_line import parse_command
    from msprobe.experiment.results import new_experiment
    from msprobe.hunt.answer import FILE, console_text
    from msprobe.hunt.hunting import hunt, is_of_other_commands
    from msprobe.hunt.runs import SIDES, Hunt
    from msprobe.terminal.colour import Paint

    output = Path(asked.output).absolute()
    reference, target = parse_command(asked.reference), parse_command(asked.target)

    def said(text: str) -> None:
        if not asked.quiet:
            print(f"msprobe: {text}", file=sys.stderr, flush=True)

    wanted = Hunt(reference, target, output, asked.stop, asked.limit, asked.max_runs, said)
    if asked.force or is_of_other_commands(wanted):
        new_experiment(output, FILE, SIDES, force=asked.force)
    answer = hunt(wanted)
    if asked.json:
        sys.stdout.write(answer.json())
    elif not asked.quiet:
        sys.stdout.write(console_text(answer, output, Paint(sys.stdout)))
    return answer.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe hunt",
        description="Runs two trainings that should be equal, finds where they diverge and what differs "
        "there, and proves the cause: without it the target follows the reference to the bit, with it "
        "the reference leaves it.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("--reference", metavar="COMMAND", required=True, help="starts the training that you trust")
    add("--target", metavar="COMMAND", required=True, help="starts the training that you examine")
    add("-o", "--output", metavar="OUT", default="./hunt", help="folder for the runs (default: ./hunt)")
    add("--stop", metavar="N", type=whole_number, help="end each run after N steps (default: as it ends)")
    add_limits(parser)
    add_force(parser)
    add_screen(parser, "print the answer as JSON, as in hunt.json")
    return parser
