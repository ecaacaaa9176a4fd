# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe run_overflow_check: exit code 0 when every overflow is normal, 1 when one is not, 2 on errors, also
when no call could be run again.
"""

from __future__ import annotations

import argparse
import sys

from msprobe.files.regular_file import is_there
from msprobe.terminal.command_line import Parser, add_place, add_screen
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.compat.overflow_check.repetition import Verdict


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if not is_there(options.api_info):  # answered here, before torch is imported
        parser.error(printable(f"{options.api_info}: expected a dump.json"))
    from msprobe.compat.overflow_check.repetition import Outcome, calls_of, check
    from msprobe.replay.dump_file import Dump
    from msprobe.replay.execution import device_named

    dump = Dump(options.api_info, options.step, options.rank)
    if not calls_of(dump):
        _say(options, [], "The dump has no forward call that can be run again.")
        return 0
    device = device_named(options.device, compile_operators=options.jit)
    if device == "cpu" and not (options.json or options.quiet):
        print(
            "note: there is no CUDA device and no NPU: half precision is checked against float32 on the CPU"
        )
    seen = set()
    verdicts = []
    for verdict in check(dump, device):
        seen.add(verdict.outcome)
        verdicts.append(verdict)
        if options.json or options.quiet:
            continue
        stream = sys.stderr if verdict.outcome is Outcome.SKIPPED else sys.stdout
        print(printable(verdict.sentence), file=stream, flush=True)
    _say(options, verdicts, "")
    if Outcome.ABNORMAL in seen:
        return 1
    return 2 if seen == {Outcome.SKIPPED} else 0


def _say(options: argparse.Namespace, verdicts: list[Verdict], text: str) -> None:
    """The lines of the calls were printed one by one."""
    if options.json:
        import json

        calls = [{"call": one.api, "outcome": one.outcome.value, "reason": one.reason} for one in verdicts]
        print(json.dumps({"calls": calls}, indent=1))
    elif text and not options.quiet:
        print(text)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe run_overflow_check",
        description="Runs the forward calls of an overflow dump again, on the device (an NPU or CUDA device) "
        "and on the CPU. An overflow of both is normal: it follows from the values. Without a device, half "
        "precision is checked against float32.",
        epilog="exit code: 0 every overflow is normal, 1 one is not, 2 an error",
    )
    parser.add_argument(
        "-api_info",
        "--api_info_file",
        dest="api_info",
        metavar="FILE",
        required=True,
        help="dump.json of one rank, its folder, or that of msprobe run; saved tensors beside it are used, "
        "else tensors are made from statistics",
    )
    add_place(parser)
    parser.add_argument(
        "-j",
        "--jit_compile",
        dest="jit",
        metavar="true|false",
        nargs="?",
        type=_flag,
        default=False,
        const=True,
        help="compile operators just in time; for the NPU (default: false)",
    )
    parser.add_argument(
        "-d",
        "--device",
        dest="device",
        metavar="N",
        type=_number,
        default=0,
        help="number of the device (default: 0)",
    )
    add_screen(parser, "print the verdict on each call as JSON")
    return parser


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected true or false, found {text!r}")
    return text.lower() == "true"


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}")
    return int(text)
