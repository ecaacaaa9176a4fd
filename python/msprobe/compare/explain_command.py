# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe explain: exit code 0 when it explains a place, 2 on errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import Parser, add_screen

_EPILOG = """exit code: 0 it is explained, 2 an error.
ANSWER: what msprobe compare, diagnose or graph wrote about dumps. PLACE: the name of a record, an item, a
parameter or a setting, or the path of a module, as the answer has them.
example: msprobe explain answer layers.1.norm1"""


def main(arguments: list[str]) -> int:
    asked = _parser().parse_args(arguments)
    from msprobe.compare.explain import as_json, explain
    from msprobe.native import log_on_stderr
    from msprobe.terminal.printable import printable

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        steps = None if asked.step is None else {asked.step}
        result = explain(
            Path(asked.answer), asked.place, steps=steps, ranks=None if asked.rank is None else {asked.rank}
        )
        if asked.json:
            sys.stdout.write(as_json(result))
        elif not asked.quiet:
            paint = Paint(sys.stdout)
            for one in result.places:
                word = "suspect" if one.is_suspect else "within what is allowed"
                head = f"step {one.step}, rank {one.rank}: {printable(one.name)}: {word}"
                print(paint.answer(head, good=not one.is_suspect))
                print("\n".join(f"  {printable(line)}" for line in one.text.split("\n")))
            if result.more:
                print(paint.faint(f"and {result.more} more"))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe explain",
        description="Why is a place suspect, or is not? What came in, what is made of it, what is allowed, "
        "and what was found.",
        epilog=_EPILOG,
    )
    parser.add_argument("answer", metavar="ANSWER", help="folder of an answer, or its verdict.json")
    parser.add_argument("place", metavar="PLACE", help="name of a record, an item, a parameter, a module")
    parser.add_argument("--step", type=int, metavar="N", help="of this step; default: the first that differs")
    parser.add_argument("--rank", type=int, metavar="N", help="of this rank alone")
    add_screen(parser, "print the places and their sums as JSON")
    return parser
