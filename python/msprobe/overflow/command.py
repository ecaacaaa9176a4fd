# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe nan_analyze: exit code 0 when nothing bad was found, 1 when the first bad call was found or not all
could be looked at, 2 on errors.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any

from msprobe.terminal.command_line import (
    Parser,
    absent,
    add_output,
    add_screen,
    output_of,
    thread_count,
    whole_number,
)
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from msprobe.overflow.analysis import NanResult

_OUTPUT = "./nan_analysis"
_MOST_FRAMES = 6
_MOST_ORIGINS = 8


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if (options.dump is None) == (options.input is None):
        parser.error("expected DUMP")
    dump = options.dump if options.input is None else options.input
    if not os.path.lexists(dump):
        parser.error(absent(dump))
    if not os.path.isdir(dump):  # answered here, before anything heavier is imported
        parser.error(
            f"{dump}: expected the folder of a run, of a step (with folders rank{{number}}) or of a rank"
        )
    from msprobe.native import log_on_stderr
    from msprobe.overflow.analysis import nan_analyze

    output = output_of(options, _OUTPUT, is_ours=options.input is None)
    with log_on_stderr("ERROR" if options.quiet else "WARNING"):
        result = nan_analyze(dump, output, step=options.step, threads=options.threads)
    if options.json:
        print(json.dumps(_data(result), indent=1))
    elif not options.quiet:
        _print(_lines(result))
    return 1 if result.found or result.left_out else 0


def _lines(result: NanResult) -> list[str]:
    from msprobe.files.left_out import lines as missing_lines

    missing = [f"not looked at: {one}" for one in missing_lines(result.left_out)]
    notes = [note for note in result.notes if " is left out: " not in note]
    lines = [f"note: {note}" for note in notes]
    if not result.found:
        return [*missing, *lines, "No NaN and no infinity was found; no file was written."]
    return [*missing, *_text(result.report), *lines, f"file: {result.file}"]


def _data(result: NanResult) -> dict[str, Any]:
    from msprobe.files.left_out import joined
    from msprobe.files.page import strict

    return {
        "found": result.found,
        "sentence": result.sentence,
        "step": result.step,
        "origins": strict(result.report),
        "notes": result.notes,
        "unread_ranks": result.unread_ranks,
        "left_out": [one.content for one in joined(result.left_out)],
        "file": None if result.file is None else str(result.file),
    }


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe nan_analyze",
        description="Finds the call, and the rank, that made the first infinity or NaN of a step.",
        epilog="exit code: 0 nothing found, 1 found, or not all could be looked at, 2 an error",
    )
    parser.add_argument(
        "dump",
        metavar="DUMP",
        nargs="?",
        help="a folder of msprobe run, a dump path, the folder of a step (rank0, rank1, ...) or of one rank",
    )
    parser.add_theirs("-i", "--input_path", dest="input", metavar="STEP", help="the same as DUMP")
    parser.add_argument(
        "--step", metavar="N", type=whole_number, help="of a run: this step (default: the first with a NaN)"
    )
    add_output(parser, "the result", _OUTPUT)
    parser.add_argument(
        "--threads",
        metavar="N",
        type=thread_count,
        default=0,
        help="ranks to read at the same time (default: all cores)",
    )
    add_screen(parser, "print the answer as JSON")
    return parser


def _text(report: dict[str, list[dict[str, Any]]]) -> list[str]:
    found = [(rank, entry) for rank, entries in report.items() for entry in entries]
    lines = []
    for rank, entry in found[:_MOST_ORIGINS]:
        lines.append(f"{rank.replace('_', ' ')}: {entry['op_name']} ({entry['phase']})")
        lines.append(f"  why: {entry['reason']}")
        if len(entry["construct_info"]) > 1:
            lines.append(f"  in: {' > '.join(entry['construct_info'][:-1])}")
        lines += _frames(entry)
    if len(found) > _MOST_ORIGINS:
        lines.append(f"and {len(found) - _MOST_ORIGINS} more in the file")
    return lines


def _frames(entry: dict[str, Any]) -> list[str]:
    title, frames = "called from:", entry["stack_info"]
    if not frames:
        title, frames = "its forward was called from:", entry.get("forward_stack_info", [])
    if not frames:
        return []
    lines = [f"    {' '.join(frame.split())}" for frame in frames[:_MOST_FRAMES]]
    if len(frames) > _MOST_FRAMES:
        lines.append(f"    and {len(frames) - _MOST_FRAMES} more")
    return [f"  {title}", *lines]


def _print(lines: list[str]) -> None:
    for line in lines:
        print(printable(line))
