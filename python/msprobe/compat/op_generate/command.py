# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe op_generate: exit code 0, or 2 on errors."""

from __future__ import annotations

import os

from msprobe.terminal.command_line import Parser, absent, add_screen, say_files
from msprobe.terminal.printable import printable


def main(arguments: list[str]) -> int:
    parser = Parser(
        prog="msprobe op_generate",
        description="Writes a script that runs one recorded call on a device and, raised, on the CPU, and "
        "prints how far both are apart. It needs torch and nothing else.",
        epilog="exit code: 0 the script is written, 2 an error",
    )
    parser.add_argument(
        "-i",
        "--config_input",
        dest="config",
        metavar="CONFIG",
        required=True,
        help="JSON file with dump_json_path, api_name, extract_api_path; on demand propagation, data_mode, "
        "random_seed, iter_times",
    )
    parser.add_argument(
        "-o",
        "--api_output_path",
        "--output",
        dest="output",
        metavar="DIR",
        required=True,
        help="folder for the script, which must exist",
    )
    add_screen(parser, "print the path of the script as JSON")
    asked = parser.parse_args(arguments)
    if not os.path.isfile(asked.config):
        parser.error(absent(asked.config))
    from msprobe.compat.op_generate.generate import generate
    from msprobe.native import log_on_stderr

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        path = generate(asked.config, asked.output)
    if asked.json:
        say_files([str(path)], asked)
    elif not asked.quiet:
        print(printable(f"Generate operator script successfully and the name is {path}."))
    return 0
