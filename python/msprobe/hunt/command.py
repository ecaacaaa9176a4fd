# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe hunt: exit code 0 when nothing parts, 1 cause proved, 3 not proved, 2 on errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.terminal.command_line import Parser, add_force, add_limits, add_noise, add_screen, whole_number

if TYPE_CHECKING:
    from msprobe.experiment.command_line import Command

_EPILOG = """exit code: 0 the target follows the reference, 1 the cause is found and proved, 3 it is not
proved, 2 an error.
Each run has a working directory of its own, in which the files of this one are seen and none is changed;
{run} in a command is the folder of the run. A hunt that was interrupted goes on when it is called again.
example: msprobe hunt -o hunted --reference 'python train.py' --target 'python train.py --new-kernel'"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.file is not None:
        from msprobe.hunt.file import words_of

        asked = parser.parse_args([*words_of(asked.file), *arguments])
    if asked.reference is None:
        parser.error("expected --reference COMMAND, or a file that has it")
    from msprobe.experiment.command_line import parse_command
    from msprobe.experiment.results import new_experiment
    from msprobe.hunt.answer import FILE, console_text
    from msprobe.hunt.hunting import hunt, is_of_other_commands
    from msprobe.hunt.runs import SIDES, Hunt
    from msprobe.terminal.colour import Paint

    output = Path(asked.output).absolute()
    reference = parse_command(asked.reference)
    target = reference if asked.target is None else parse_command(asked.target)
    there = _placed(reference, asked.target_python, asked.target_env)
    is_moved = bool(asked.target_python or asked.target_env) and reference != target
    reference = _placed(reference, asked.reference_python, asked.reference_env)
    target = _placed(target, asked.target_python, asked.target_env)

    def said(text: str) -> None:
        if not asked.quiet:
            print(f"msprobe: {text}", file=sys.stderr, flush=True)

    wanted = Hunt(
        reference,
        target,
        output,
        stop=asked.stop,
        limit=asked.limit,
        most_runs=asked.max_runs,
        said=said,
        most_seconds=asked.max_time,
        noise=tuple(map(Path, asked.noise)),
        reference_there=there if is_moved else None,
    )
    if asked.force or is_of_other_commands(wanted):
        new_experiment(output, FILE, SIDES, force=asked.force)
    answer = hunt(wanted)
    if asked.json:
        sys.stdout.write(answer.json())
    elif not asked.quiet:
        sys.stdout.write(console_text(answer, output, Paint(sys.stdout)))
    return answer.exit_code


def _placed(command: Command, python: str | None, variables: list[tuple[str, str]]) -> Command:
    """In its environment."""
    command = command.with_environment(dict(variables)) if variables else command
    return command if python is None else command.with_python(python)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe hunt",
        description="Runs two trainings that should be equal, finds where they diverge and what differs "
        "there, and proves the cause: without it the target follows the reference to the bit, with it "
        "the reference leaves it.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("file", metavar="hunt.yaml", nargs="?", help="has these options, a key for each: max_runs: 30")
    add("--reference", metavar="COMMAND", help="starts the training that you trust")
    add(
        "--target",
        metavar="COMMAND",
        help="starts the training that you examine (default: that of the reference, in another environment)",
    )
    for side in ("reference", "target"):
        add(f"--{side}-python", metavar="PYTHON", help="the interpreter, which has msprobe")
        add(
            f"--{side}-env",
            metavar="NAME=VALUE",
            action="append",
            default=[],
            type=_variable,
            help="a variable of the environment",
        )
    add("-o", "--output", metavar="OUT", default="./hunt", help="folder for the runs (default: ./hunt)")
    add("--stop", metavar="N", type=whole_number, help="end each run after N steps (default: as it ends)")
    add_noise(
        parser,
        "what msprobe repeat or msprobe perturb left of the reference: a run follows it within this",
    )
    add_limits(parser)
    add("--max-time", metavar="SECONDS", type=whole_number, help="begin no run after (default: none)")
    add_force(parser)
    add_screen(parser, "print the answer as JSON, as in hunt.json")
    return parser
