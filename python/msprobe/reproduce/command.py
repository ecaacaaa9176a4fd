# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe reproduce: exit code 0, or 2 on errors."""

from __future__ import annotations

from pathlib import Path

from msprobe.files.regular_file import is_there
from msprobe.terminal.command_line import Parser, absent, add_force, add_place, add_screen, say_files


def main(arguments: list[str]) -> int:
    parser = Parser(
        prog="msprobe reproduce",
        description="Writes a script that repeats one recorded call with its recorded tensors and asserts "
        "its result: to be attached to a bug report. It needs torch and nothing else.",
        epilog="exit code: 0 the script is written, 2 an error; that of the script: 0 the result is as "
        "accurate as its dtype allows, 1 it is not",
    )
    add = parser.add_argument
    add("dump", metavar="DUMP", help="dump.json, its folder, or that of msprobe run")
    add("call", metavar="CALL", help="name of the call: Functional.softmax.3")
    add_place(parser)
    add(
        "-o",
        "--output",
        dest="output",
        metavar="DIR",
        default="./reproduction",
        help="folder for the script and large tensors, made if needed (default: ./reproduction)",
    )
    add_force(parser)
    add_screen(parser, "print the paths of the files as JSON")
    asked = parser.parse_args(arguments)
    if not is_there(asked.dump):
        parser.error(absent(asked.dump))
    from msprobe.files.new_results import new_results
    from msprobe.reproduce.reproduce import reproduce

    folder = Path(asked.output)
    with new_results(folder, (f"{asked.call}.py", f"{asked.call}.[0-9]*.pt"), force=asked.force):
        files = reproduce(asked.dump, asked.call, asked.output, step=asked.step, rank=asked.rank)
    say_files([str(path) for path in files], asked)
    return 0
