# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe grad_compare: exit code 0 when the runs agree, 1 when they differ or a part could not be compared,
2 on errors.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import Parser, absent, add_force, add_runs, add_screen, add_threads
from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.grad_probe.comparator import ComparisonResult
    from msprobe.grad_probe.verdict import Finding, Verdict

_OUTPUT = "./grad_comparison"
_MOST_LINES = 10


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    for path in (options.reference, options.target):
        if not os.path.lexists(path):
            parser.error(absent(path))
        if not os.path.isdir(path):  # answered here, before anything heavier is imported
            parser.error(f"{path}: expected the folder of a gradient record, or that of msprobe run")
    from msprobe.files.new_results import new_results
    from msprobe.grad_probe.comparator import RESULTS, compare_records
    from msprobe.native import log_on_stderr

    with (
        log_on_stderr("ERROR" if options.quiet else "WARNING"),
        new_results(Path(options.output), RESULTS, force=options.force),
    ):
        result = compare_records(
            options.reference,
            options.target,
            options.output,
            pictures="all" if options.all_pictures else not options.no_pictures,
            threads=options.threads,
            show_progress=not options.quiet,
        )
    if options.json:
        sys.stdout.write(result.verdict.to_json())
    elif not options.quiet:
        print(_text(result))
    return 0 if result.same else 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe grad_compare",
        description="Compares the signs of the gradients of two runs: at which step and parameter do they "
        "diverge?",
        epilog="exit code: 0 the runs agree, 1 they differ or a part could not be compared, 2 an error",
    )
    add_runs(parser, "folder of msprobe run, of a gradient record, or of one rank of it")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        default=_OUTPUT,
        help=f"folder for the results, made if needed (default: {_OUTPUT})",
    )
    add_force(parser)
    parser.add_argument(
        "--all-pictures",
        action="store_true",
        help="of several ranks: not of the worst twenty parameters only",
    )
    parser.add_argument("--no-pictures", action="store_true", help="leave out similarities_picture/*.png")
    add_threads(parser)
    add_screen(parser, "print the verdict as JSON, as in verdict.json")
    return parser


def _text(result: ComparisonResult) -> str:
    verdict = result.verdict
    lines = [Paint(sys.stdout).answer(verdict.sentence, good=result.same)]
    not_compared = _first([f"  {finding.line}" for finding in verdict.not_compared])
    for block in (_differences(verdict), not_compared):
        if block:
            lines += ["", *block]
    lines += ["", f"report: {result.report_path}"]
    return "\n".join(lines)


def _differences(verdict: Verdict) -> list[str]:
    """The first difference of each parameter."""
    with_rank = len(verdict.ranks) > 1
    rows = [_row(finding, with_rank) for finding in verdict.suspicious]
    header = f"  {'rank  ' if with_rank else ''}step  similarity  before  parameter"
    return [header, *_first(rows)] if rows else []


def _first(rows: list[str]) -> list[str]:
    left = len(rows) - _MOST_LINES
    return [*rows[:_MOST_LINES], f"  and {left} more in verdict.json"] if left > 0 else rows


def _row(finding: Finding, with_rank: bool) -> str:
    rank = f"{finding.rank:>4}  " if with_rank else ""
    before = "" if finding.previous is None else f"{finding.previous:.4f}"
    parameter = printable(str(finding.parameter))
    return f"  {rank}{finding.step:>4}  {finding.similarity:>10.4f}  {before:>6}  {parameter}"
