# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe api_precision_compare: exit code 0 when no call is judged an error, 1 when one is, 2 on errors."""

from __future__ import annotations

import argparse
import os
import sys

from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import Parser, add_screen
from msprobe.terminal.printable import printable


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    for path in (asked.npu, asked.gpu):
        if not os.path.isfile(path):
            parser.error(printable(f"{path}: there is no such file"))
    from msprobe.compat.accuracy.precision_compare import api_precision_compare
    from msprobe.native import log_on_stderr

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        result = api_precision_compare(asked.npu, asked.gpu, asked.output or "./")
    bad = [name for name, pair in result.statuses.items() if "error" in pair]
    sentence = (
        f"{len(bad)} of {len(result.statuses)} calls are judged errors"
        if bad
        else (f"No call is judged an error: {len(result.statuses)} compared")
    )
    if asked.json:
        import json

        content = {
            "agrees": not bad,
            "calls": {name: list(pair) for name, pair in result.statuses.items()},
            "files": [str(result.results), str(result.details)],
        }
        print(json.dumps(content, indent=1))
    if asked.json or asked.quiet:
        return 1 if bad else 0
    print(Paint(sys.stdout).answer(sentence, good=not bad))
    for name in bad[:10]:
        print(f"  {printable(name)}")
    for path in (result.results, result.details):
        print(f"  {printable(str(path))}")
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe api_precision_compare",
        description="Compares the errors of a device with those of a trusted device, operator by operator.",
        epilog="exit code: 0 no call is judged an error, 1 one is, 2 an error of the command",
    )
    add = parser.add_argument
    add(
        "-npu",
        "--npu_csv_path",
        dest="npu",
        metavar="DETAILS",
        required=True,
        help="accuracy_checking_details_{time}.csv of the device that you examine",
    )
    add(
        "-gpu",
        "--gpu_csv_path",
        dest="gpu",
        metavar="DETAILS",
        required=True,
        help="accuracy_checking_details_{time}.csv of the device that you trust",
    )
    add(
        "-o",
        "--out_path",
        "--output",
        dest="output",
        metavar="OUT",
        default="",
        help="folder of the results, made if needed (default: ./)",
    )
    add_screen(parser, "print the status of each call, forward and backward, as JSON")
    return parser
