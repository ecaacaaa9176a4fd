# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe code_mapping: exit code 0 when something was mapped, 2 on errors."""

from __future__ import annotations

import argparse
import os

from msprobe.terminal.command_line import Parser, absent, add_screen, say_files


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    for path in (asked.ir, asked.dump_data):
        if not os.path.exists(path):
            parser.error(absent(path))
    from msprobe.compat.code_mapping.mapping import map_data
    from msprobe.native import log_on_stderr

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        files = map_data(asked.ir, asked.dump_data, asked.output)
    say_files([str(path) for path in files], asked)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe code_mapping",
        description="Says which lines of a program made the kernels whose data a MindSpore graph dumped.",
        epilog="exit code: 0 the files are written, their paths are printed; 2 an error\n"
        "example: msprobe code_mapping --ir anf_after_graph_build_0001.ir --dump_data dump/step0",
    )
    add = parser.add_argument
    add(
        "--ir",
        metavar="FILE",
        required=True,
        help="the graph that MindSpore saved: anf_after_graph_build*.ir",
    )
    add(
        "--dump_data",
        metavar="PATH",
        required=True,
        help="a .npy file, statistic.csv, or a folder with such files; statistic.csv get two more columns",
    )
    add(
        "--output",
        "-o",
        metavar="OUT",
        default="./",
        help="folder for code_mapping_{time}.csv, of .npy files; made if needed (default: ./)",
    )
    add_screen(parser, "print the paths of the files as JSON")
    return parser
