# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe export: exit code 0 when the files of every log are made, 2 on errors."""

from __future__ import annotations

import argparse
import os
import re
import sys

from msprobe.terminal.command_line import Parser, add_screen
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG_NAME = "trace.msprobe"


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    logs = list(_logs(options.path))
    if not logs:
        return _complain(
            f"{options.path}: expected an event log, or a folder with files called {_LOG_NAME}; "
            'a run leaves them with "json": "deferred", or when it is killed'
        )
    code = 0
    done: list[dict[str, object]] = []
    for log, folder in logs:
        if options.output is None:
            output = os.path.dirname(log) or "."
        else:
            output = os.path.normpath(os.path.join(options.output, folder))
        code = max(code, _export(log, output, options, done))
    if options.json:
        import json

        print(json.dumps({"logs": done}, indent=1))
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe export",
        description="Makes dump.json, stack.json and construct.json (level debug: debug.json) of the event "
        'logs that a data dump leaves with "json": "deferred", or when its process is killed.',
        epilog="exit code: 0 done, also when the end of a log is missing, which is said; 2 an error",
    )
    parser.add_argument(
        "path",
        metavar="TRACE_FILE_OR_FOLDER",
        help=f"an event log, or a folder below which all files called {_LOG_NAME} are taken: a dump path, "
        "a step or a rank",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="folder for the results, made if needed; several logs keep their folders below it "
        "(default: beside each log)",
    )
    add_screen(parser, "print what was made as JSON")
    return parser


def _logs(path: str) -> Iterator[tuple[str, str]]:
    """Each log with its folder relative to `path`: step 2 before step 10."""
    if not os.path.isdir(path):
        if os.path.exists(path):
            yield path, ""
        return
    for folder, below, files in os.walk(path):
        below.sort(key=_by_number)
        if _LOG_NAME in files:
            yield os.path.join(folder, _LOG_NAME), os.path.relpath(folder, path)


def _by_number(name: str) -> list[tuple[int, str]]:
    """Orders names as people do: parts of digits by their number."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"([0-9]+)", name)]


def _export(log: str, output: str, options: argparse.Namespace, done: list[dict[str, object]]) -> int:
    from msprobe.native import Error, core

    try:
        report = core.export_event_log(log, output)
    except Error as error:
        return _complain(str(error))
    done.append(
        {
            "log": log,
            "folder": output,
            "records": report.records,
            "tensors": report.tensors,
            "missing_end": str(report.cut or ""),
        }
    )
    if options.json or options.quiet:
        return 0
    line = f"{output}: {report.records} records, {report.tensors} tensors"
    if report.cut:
        line += f"; the end of the log is missing: {report.cut}"
    print(printable(line))
    return 0


def _complain(text: str) -> int:
    print(printable(f"msprobe export: error: {text}"), file=sys.stderr)
    return 2
