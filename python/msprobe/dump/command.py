# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe export: exit code 0 when the files of every log and packed step are made, 2 on errors."""

from __future__ import annotations

import argparse
import os
import re
import sys

from msprobe.files.regular_file import PACKED_STEP
from msprobe.terminal.command_line import Parser, add_screen
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG_NAME = "trace.msprobe"
_NAMES = (_LOG_NAME, PACKED_STEP)


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    logs = list(_logs(options.path))
    if not logs:
        return _complain(
            f"{options.path}: expected an event log ({_LOG_NAME}), a packed step ({PACKED_STEP}) or a folder "
            "with them: msprobe run leaves the second, a run that was killed the first"
        )
    code = 0
    done: list[dict[str, object]] = []
    for log, folder in logs:
        if options.output is None:
            output = os.path.dirname(log) or "."
        else:
            output = os.path.normpath(os.path.join(options.output, folder))
        export = _unpack if os.path.basename(log) == PACKED_STEP else _export
        code = max(code, export(log, output, options, done))
    if options.json:
        import json

        print(json.dumps({"logs": done}, indent=1))
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe export",
        description="Makes dump.json, stack.json and construct.json (level debug: debug.json), as "
        "mindstudio-probe writes them, of the packed steps of msprobe run, and of the event logs that a data "
        'dump leaves with "json": "deferred", or when its process is killed.',
        epilog="exit code: 0 done, also when the end of a log is missing, which is said; 2 an error",
    )
    parser.add_argument(
        "path",
        metavar="TRACE_FILE_OR_FOLDER",
        help=f"a {PACKED_STEP} or {_LOG_NAME}, or a folder below which all of them are taken: of msprobe "
        "run, a dump path, a step or a rank",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="folder for the results, made if needed; several steps keep their folders below it "
        "(default: beside each log or packed step)",
    )
    add_screen(parser, "print what was made as JSON")
    return parser


def _logs(path: str) -> Iterator[tuple[str, str]]:
    """Each log and packed step with its folder relative to `path`: step 2 before step 10."""
    if not os.path.isdir(path):
        if os.path.exists(path):
            yield path, ""
        return
    for folder, below, files in os.walk(path):
        below.sort(key=_by_number)
        for name in _NAMES:
            if name in files:
                yield os.path.join(folder, name), os.path.relpath(folder, path)


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


def _unpack(archive: str, output: str, options: argparse.Namespace, done: list[dict[str, object]]) -> int:
    from msprobe.native import Error, core

    try:
        names = core.unpack_step(archive, output)
    except Error as error:
        return _complain(str(error))
    done.append({"packed": archive, "folder": output, "files": names})
    if not (options.json or options.quiet):
        print(printable(f"{output}: {', '.join(names)}"))
    return 0


def _complain(text: str) -> int:
    print(printable(f"msprobe export: error: {text}"), file=sys.stderr)
    return 2
