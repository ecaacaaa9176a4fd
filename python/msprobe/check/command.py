# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe check: exit code 0 when no operator is wrong, 1 when one is, 2 on errors, also when no call could
be run again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msprobe.files.regular_file import is_there
from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import (
    Parser,
    absent,
    add_force,
    add_junit,
    add_output,
    add_screen,
    add_theirs,
    output_of,
)

_OUTPUT = "./check"

_EPILOG = """exit code: 0 no operator is wrong, 1 one is (or is not deterministic), 2 an error or no call.
DUMP is a folder of msprobe run, a dump path, the folder of a step or a rank, or a dump.json: level L1 or mix,
task tensor or statistics."""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    for path in (asked.dump, asked.inputs_of):
        if path is not None and not is_there(path):
            parser.error(absent(path))
    from msprobe.check.console import console_text
    from msprobe.check.outputs import LOG, RESULTS, write_outputs
    from msprobe.check.run import CheckOptions, check_dump
    from msprobe.check.verdict_file import verdict_json
    from msprobe.files.new_results import new_results

    options = CheckOptions(
        calls=tuple(asked.calls),
        device=asked.device,
        dtype=asked.dtype,
        repeat=asked.repeat,
        results=asked.results,
        inputs_of=None if asked.inputs_of is None else Path(asked.inputs_of),
        ranks=asked.rank,
        steps=asked.step,
        shows_progress=not asked.quiet,
    )
    output = Path(output_of(asked, _OUTPUT))
    with new_results(output, RESULTS, force=asked.force, log=LOG):
        result = check_dump(Path(asked.dump), options, output)
        files = write_outputs(result, junit="junit" in asked.format)
    if asked.json:
        sys.stdout.write(verdict_json(result))
    elif not asked.quiet:
        sys.stdout.write(console_text(result, files, Paint(sys.stdout), worst=asked.worst))
    return result.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe check",
        description="Runs every recorded call once more: is its operator as accurate as its dtype allows?",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("dump", metavar="DUMP", help="the dump whose operators are judged")
    add(
        "--calls",
        metavar="NAME",
        nargs="+",
        action="extend",
        default=[],
        help="only calls whose names hold NAME: softmax, Functional.linear.3",
    )
    add("--ranks", dest="rank", metavar="N", type=_numbers, help="only these ranks: 0,2,8")
    add("--steps", dest="step", metavar="N", type=_numbers, help="only these steps of a run")
    for name in ("rank", "step"):
        add_theirs(parser, f"--{name}", dest=name, metavar="N", type=_numbers, help=f"the same as --{name}s")
    add(
        "--device",
        metavar="DEVICE",
        default="",
        help="run on cpu, cuda, cuda:1 or npu (default: an accelerator where there is one)",
    )
    add(
        "--dtype",
        metavar="DTYPE",
        default="",
        help="run in this dtype in place of the recorded one: bfloat16",
    )
    add(
        "--repeat",
        metavar="N",
        type=_count,
        default=1,
        help="run each call N times: is it deterministic, bit by bit?",
    )
    add(
        "--results",
        choices=("auto", "recorded", "rerun"),
        default="auto",
        help="judge the results that the dump holds, or those of a run on the device now (default: recorded "
        "ones where there are any and no accelerator to run on)",
    )
    add(
        "--inputs-of",
        dest="inputs_of",
        metavar="REFERENCE",
        help="give the operators the arguments of this dump of the reference (task tensor): tells the error "
        "that a call introduces from the one that it inherits",
    )
    add(
        "--worst",
        metavar="K",
        type=_count,
        default=0,
        help="also show the K calls with the largest errors",
    )
    add_output(parser, "the results", _OUTPUT)
    add_force(parser)
    add_junit(parser)
    add_screen(parser, "print the answer as JSON, as in verdict.json")
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 6 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return int(text)


def _numbers(text: str) -> set[int]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) <= 6 for part in parts):
        raise argparse.ArgumentTypeError(f"expected numbers such as 0,2,8, found {text!r}")
    return set(map(int, parts))
