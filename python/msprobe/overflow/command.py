# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe nan_analyze: exit code 0 when nothing bad was found, 1 when the first bad call was found, 2 on
errors, also when nothing was found but a rank could not be read.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from msprobe.terminal.command_line import Parser, add_output, thread_count
from msprobe.terminal.printable import printable

_MOST_FRAMES = 6
_MOST_ORIGINS = 8


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if not os.path.isdir(options.input):  # answered here, before anything heavier is imported
        parser.error(f"{options.input}: expected the directory of a step, with folders rank{{number}}")
    from msprobe.native import core
    from msprobe.overflow.origin import report_of, write_report

    analysis = core.find_origins(options.input, threads=options.threads)
    lines = [f"note: {note}" for note in analysis.notes]
    if not analysis.origins:
        lines.append("Cannot find any anomaly node, no need to generate analyze file.")
        _print(lines)
        return 2 if analysis.unread_ranks else 0
    report = report_of(analysis)
    path = write_report(report, options.output)
    _print([*_text(report), *lines, f"The analyze result is saved in: {path}"])
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe nan_analyze",
        description="Finds the call, and the rank, that made the first infinity or NaN of a step.",
        epilog="exit code: 0 nothing found, 1 found, 2 an error, or nothing found but a rank cannot be read",
    )
    parser.add_argument(
        "-i",
        "--input_path",
        dest="input",
        metavar="STEP",
        required=True,
        help="folder of a step of a data dump, with rank0, rank1, ...; or the folder of one rank",
    )
    add_output(parser, "the result")
    parser.add_argument(
        "--threads",
        metavar="N",
        type=thread_count,
        default=0,
        help="ranks to read at the same time (default: all cores)",
    )
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
