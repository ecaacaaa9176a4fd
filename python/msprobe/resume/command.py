# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe resume: exit code 0 when the resumed training equals the straight one, 1 if not, 2 on errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msprobe.terminal.command_line import Parser, add_force, add_screen, whole_number

_EPILOG = """exit code: 0 the resumed training is equal to the one that went straight on, 1 it is not,
2 an error.
Each run has a working directory of its own, in which the files of this one are seen and none is changed.
example: msprobe resume --at 100 'python train.py'
         msprobe resume --at 100 --resume 'python train.py --resume {checkpoint}' 'python train.py'"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.at < 1 or asked.after < 1:
        parser.error("--at, --after: expected 1 or more")
    from msprobe.experiment.command_line import parse_command
    from msprobe.experiment.results import new_experiment
    from msprobe.resume.answer import FILE, console_text
    from msprobe.resume.experiment import Resume, resume
    from msprobe.terminal.colour import Paint

    output = Path(asked.output).absolute()
    command, resumed = parse_command(asked.command), parse_command(asked.resume or asked.command)
    names = ("straight", "stopped", "resumed", "kept", "restored")
    new_experiment(output, FILE, names, force=asked.force)

    def said(text: str) -> None:
        if not asked.quiet:
            print(f"msprobe: {text}", file=sys.stderr, flush=True)

    answer = resume(Resume(command, resumed, output, asked.at, asked.after, asked.limit, said))
    if asked.json:
        sys.stdout.write(answer.json())
    elif not asked.quiet:
        sys.stdout.write(console_text(answer, output, Paint(sys.stdout)))
    return 0 if answer.follows else 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe resume",
        description="Runs a training straight on, and stops and resumes it; says whether both are equal to "
        "the bit behind the resume, else what was not restored, proved by restoring it.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("command", metavar="COMMAND", help="starts the training")
    add("--at", metavar="N", type=whole_number, required=True, help="the step before which it is stopped")
    add(
        "--resume",
        metavar="COMMAND",
        help="resumes it; {checkpoint} is what the stopped run saved last, {checkpoint_folder} the folder "
        "of it (default: the same command, in the folder where it was stopped)",
    )
    add("--after", metavar="K", type=whole_number, default=3, help="steps compared behind (default: 3)")
    add("-o", "--output", metavar="OUT", default="./resume", help="folder for the runs (default: ./resume)")
    add("--limit", metavar="SECONDS", type=whole_number, help="end a run that takes longer (default: none)")
    add_force(parser)
    add_screen(parser, "print the answer as JSON, as in resume.json")
    return parser
