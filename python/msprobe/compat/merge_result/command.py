# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe merge_result: exit code 0 when the merged file is written, 2 on errors."""

from __future__ import annotations

import argparse

from msprobe.terminal.command_line import Parser, add_screen, say_files


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    from msprobe.compat.merge_result.merge_result import merge_result
    from msprobe.native import log_on_stderr
    from msprobe.terminal.progress import Working

    with (
        log_on_stderr("ERROR" if options.quiet else "WARNING"),
        Working("merge_result", shown=not options.quiet),
    ):
        output = merge_result(options.input, options.output, options.config)
    say_files([str(output)], options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe merge_result",
        description="Merges the results of several ranks into one spreadsheet: a sheet per index, a column "
        "per rank.",
        epilog="exit code: 0 the file is written, its path is printed; 2 an error",
    )
    parser.add_argument(
        "-i",
        "--input_dir",
        dest="input",
        metavar="DIR",
        required=True,
        help="folder with compare_result_rank{N}_{time}.xlsx or .csv, two at least",
    )
    parser.add_argument(
        "-o",
        "--output_dir",
        "--output",
        dest="output",
        metavar="OUT",
        required=True,
        help="folder for multi_ranks_compare_merge_{time}.xlsx; made if needed",
    )
    parser.add_argument(
        "-config",
        "--config-path",
        dest="config",
        metavar="FILE",
        required=True,
        help="YAML file: `api`, a list of operator names; `compare_index`, a list of columns (default: all)",
    )
    add_screen(parser, "print the path of the file as JSON")
    return parser
