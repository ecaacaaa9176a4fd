# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe repeat: exit code 0 when the training repeats itself, 1 when it does not, 2 on errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msprobe.terminal.command_line import (
    Parser,
    add_force,
    add_limits,
    add_screen,
    split_at_command,
    whole_number,
)

_WITH_VALUE = ("-n", "-o", "--output", "--stop", "--limit", "--max-runs")

_EPILOG = """exit code: 0 the training repeats itself, 1 it does not, 2 an error.
Each run has a working directory of its own, in which the files of this one are seen and none is changed;
{run} in the command is the folder of the run, for what is written elsewhere.
example: msprobe repeat train.py --lr 1e-3
         msprobe repeat --stop 20 -o repeated torchrun --nproc-per-node 2 train.py"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    ours, words = split_at_command(arguments, _WITH_VALUE)
    asked = parser.parse_args(ours)
    if not words:
        parser.error("expected a script, -m and a module, or a command that starts a training")
    if asked.runs < 2:
        parser.error("-n: expected 2 runs or more")
    from msprobe.experiment.command_line import command_of
    from msprobe.experiment.results import new_experiment
    from msprobe.repeat.answer import FILE, console_text
    from msprobe.repeat.experiment import Repetition, repeat
    from msprobe.terminal.colour import Paint

    output = Path(asked.output).absolute()
    command = command_of(words)
    new_experiment(output, FILE, ("run_*", "trials", "step_*"), force=asked.force)
    answer = repeat(
        Repetition(
            command,
            output,
            runs=asked.runs,
            stop=asked.stop,
            limit=asked.limit,
            most_runs=asked.max_runs,
            said=lambda text: None if asked.quiet else print(f"msprobe: {text}", file=sys.stderr, flush=True),
        )
    )
    if asked.json:
        sys.stdout.write(answer.json())
    elif not asked.quiet:
        sys.stdout.write(console_text(answer, Paint(sys.stdout)))
    return 0 if answer.parting is None else 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe repeat",
        usage="msprobe repeat [options] SCRIPT [ARGUMENTS] | -m MODULE [ARGUMENTS] | COMMAND [ARGUMENTS]",
        description="Runs a training twice from the same start and says whether it repeats itself to the "
        "bit; else the first call that does not, why, and the setting that makes it repeat, proved by "
        "running with it.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add(
        "-n",
        dest="runs",
        metavar="N",
        type=whole_number,
        default=2,
        help="runs to compare (default: 2)",
    )
    add("-o", "--output", metavar="OUT", default="./repeat", help="folder for the runs (default: ./repeat)")
    add("--stop", metavar="N", type=whole_number, help="end each run after N steps (default: as it ends)")
    add_limits(parser)
    add_force(parser)
    add_screen(parser, "print the answer as JSON, as in repeat.json")
    return parser
