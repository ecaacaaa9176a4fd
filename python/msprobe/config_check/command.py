# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe config_check: exit code 0 when a pack was written or two set-ups are alike, 1 when they differ or a
part could not be compared, 2 on errors.
"""

from __future__ import annotations

import argparse
import os
import sys

from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import Parser, absent, add_screen

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.config_check.packs.pack_reader import Pack

_EPILOG = """exit code: 0 a pack was written, or the set-ups are alike; 1 they differ, or a part of a pack
could not be read; 2 an error.
Checkpoints are compared by msprobe ckpt."""

_DEFAULT_PACK = "./config_check_pack.zip"
_DEFAULT_RESULT = "./config_comparison"
_THEIR_RESULT = "./config_check_result"


def main(arguments: list[str]) -> int:
    options = parser()
    asked = options.parse_args(arguments)
    for option, value in (("-vc", asked.vc), ("-vv", asked.vv)):
        if value is not None:
            options.error(f"{option}: settings of verl are collected with -d FILE.yaml, and compared with -c")
    if asked.dump is not None and not asked.live:  # wins over -c, as in mindstudio-probe
        return _collect(asked)
    if asked.compare is None and asked.runs:
        asked.compare = asked.runs
    if asked.compare is None:
        options.error(
            "The param is not correct, you need to give '-d' for dump or '-c' for compare: expected "
            "REFERENCE TARGET, or -d [FILE ...]"
        )
    expected = 1 if asked.live else 2
    if len(asked.compare) != expected:
        what = "one run or pack with --live" if asked.live else "two runs or packs"
        options.error(f"expected {what}, found {len(asked.compare)}")
    for path in asked.compare:
        if not os.path.exists(path):
            options.error(absent(path))
    return _compare(asked)


def _collect(asked: argparse.Namespace) -> int:
    from msprobe.config_check.collecting.collection import collect_static
    from msprobe.native import log_on_stderr
    from msprobe.terminal.printable import printable

    path = asked.output or _DEFAULT_PACK
    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        collect_static(asked.dump, path)
    if not asked.quiet:
        print(f"the pack is saved in: {printable(path)}")
    return 0


def _compare(asked: argparse.Namespace) -> int:
    from pathlib import Path

    from msprobe.config_check.comparison import compare_packs
    from msprobe.config_check.outputs import check_output, result_json, write_outputs
    from msprobe.config_check.packs.pack_reader import read_pack
    from msprobe.config_check.wording import console_text
    from msprobe.files.run_folder import is_run, pack_of
    from msprobe.native import log_on_stderr

    folder = Path(asked.output or (_DEFAULT_RESULT if asked.runs else _THEIR_RESULT))
    paths = tuple(pack_of(Path(path)) for path in asked.compare)
    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        # Packs by their names behind -c: a command line of mindstudio-probe, which replaces earlier results.
        replaces_earlier = asked.force or not (asked.runs or any(map(is_run, asked.compare)))
        check_output(folder, paths, replaces_earlier=replaces_earlier, force=asked.force)
        with read_pack(paths[0]) as reference, _other(asked, paths) as target:
            result = compare_packs(reference, target)
            files = write_outputs(folder, result, reference, target)
    if asked.json:
        sys.stdout.write(result_json(result))
    elif not asked.quiet:
        sys.stdout.write(console_text(result, files, Paint(sys.stdout)))
    return 0 if result.agree else 1


def _other(asked: argparse.Namespace, paths: tuple[Path, ...]) -> Pack:
    """The side under test."""
    from msprobe.config_check.packs.pack_reader import read_pack

    if asked.live:
        from msprobe.config_check.collecting.collection import live_pack

        return live_pack(asked.dump or [])
    return read_pack(paths[1])


def parser(*, exits: bool = True) -> Parser:
    made = Parser(
        prog="msprobe config_check",
        usage="msprobe config_check [options] REFERENCE (TARGET | --live) | "
        "msprobe config_check -d [FILE ...] [-o PACK.zip]",
        description="Were two training runs set up alike? Collects what decides that, and compares it.",
        epilog=_EPILOG,
        add_help=exits,
    )
    add = made.add_argument
    add(
        "runs",
        metavar="REFERENCE TARGET",
        nargs="*",
        help="compare two folders of msprobe run, or two packs: the run that you trust, and the one that you "
        "examine",
    )
    add(
        "-d",
        "--dump",
        nargs="*",
        metavar="FILE",
        help="write a pack: environment, packages, versions, and the hyper-parameters in these launch "
        "scripts (.sh) and settings (.yaml, .yml, .json)",
    )
    made.add_theirs(
        "-c", "--compare", nargs="+", metavar="PACK", help="compare: the reference, then the target"
    )
    add(
        "--live",
        action="store_true",
        help="compare one pack with this environment, and with the files of -d",
    )
    for option in ("-vc", "-vv"):
        made.add_theirs(
            option, metavar="FILE", nargs="*", help="an error: -d reads settings of verl like all others"
        )
    add(
        "-o",
        "--output",
        metavar="OUT",
        help=f"folder for the results, made if needed (default: {_DEFAULT_RESULT}); with -d the pack "
        f"(default: {_DEFAULT_PACK})",
    )
    add("--force", action="store_true", help="delete what is in the folder of the results")
    add_screen(made, "print the result as JSON, as in result.json")
    return made
