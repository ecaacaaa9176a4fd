# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe trend: exit code 0 when there is nothing to see, 1 with alarms, runs or ranks that diverge, or
ranks that one run lacks, 2 on errors.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import Parser, absent, add_offset, add_screen

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.trend.comparison import Comparison
    from msprobe.trend.record import Record

_EPILOG = """exit code: 0 no alarm, and the runs do not diverge; 1 alarms, or the runs diverge, or a rank
leaves the others, or cannot be compared; 2 an error.
The first run is the reference of the others. Runs diverge where a number leaves the noise of the reference:
2.5 times the change from step to step that nine in ten of the last 64 changes stay below.
example: msprobe trend run_a run_b --view"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    for path in asked.runs:  # answered here, before anything heavier is imported
        if not Path(path).exists():
            parser.error(absent(path))
    from msprobe.native import log_on_stderr
    from msprobe.trend.record import open_records

    if asked.export is not None:
        from msprobe.files.new_results import check_new_file

        check_new_file(Path(asked.export), force=asked.force)
    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        records = open_records(asked.runs, asked.rank, asked.offset)
        if asked.view:
            return show(records, asked)
        comparisons = _compared(records, shows_progress=not asked.quiet)
        said = _say(records, comparisons, asked)
        if asked.export is not None:
            export(records, Path(asked.export))
            if not (asked.quiet or asked.json):
                print(f"\npage: {asked.export}")
    return said


def show(records: Sequence[Record], asked: argparse.Namespace) -> int:
    """Serves the page until it is ended. asked: with the options of add_serving()."""
    from msprobe.trend.api import TrendApi
    from msprobe.viewer.serving import serve

    api = TrendApi(records)
    try:
        return serve(asked, api, ", ".join(str(record.path) for record in records))
    finally:
        api.close()


def export(records: Sequence[Record], out: Path) -> None:
    """Writes one page that needs nothing but a browser, complete or not at all. Raises IoError."""
    from msprobe.files.atomic_file import write_text
    from msprobe.trend.api import TrendApi
    from msprobe.viewer.export import page

    write_text(out, page({"trend": TrendApi(records).exported()}))


def _compared(records: Sequence[Record], *, shows_progress: bool) -> list[Comparison]:
    from msprobe.terminal.progress import Progress
    from msprobe.trend.ranks import compare_all_ranks

    reference, *targets = records
    found = []
    for target in targets:
        with Progress("steps", shown=shows_progress) as progress:

            def told(share: float, target: Record = target, progress: Progress = progress) -> bool:
                progress(round(share * target.steps), target.steps)
                return True

            found.append(compare_all_ranks(reference, target, told))
    return found


def _say(records: Sequence[Record], comparisons: Sequence[Comparison], asked: argparse.Namespace) -> int:
    from msprobe.trend.summary import as_json, console_text, has_findings

    if asked.json:
        sys.stdout.write(as_json(records, comparisons))
    elif not asked.quiet:
        sys.stdout.write(console_text(records, comparisons, Paint(sys.stdout)))
    return 1 if has_findings(records, comparisons) else 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe trend",
        usage="msprobe trend [options] REFERENCE [TARGET ...]",
        description="Shows what the monitor recorded of a training, and where two trainings diverge.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add(
        "runs",
        metavar="REFERENCE TARGET",
        nargs="+",
        help="folders of msprobe run --with monitor, or of a record of the monitor; one alone is shown",
    )
    add("--rank", type=_rank, help='of a record with "scope": "rank": the rank (default: all)')
    add_offset(parser)
    add("--view", action="store_true", help="show it in the browser, as msprobe view does")
    add("--export", metavar="OUT.html", help="also write it as one self-contained page")
    add("--force", action="store_true", help="of --export: replace a file that is there already")
    from msprobe.viewer.serving import add_serving

    add_serving(parser, " of --view:")
    add_screen(parser, "print the answer as JSON")
    return parser


def _rank(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"expected a rank from 0 on, found {text!r}")
    return int(text)
