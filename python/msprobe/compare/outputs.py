# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files about a whole comparison, beside the tables of its pairs."""

from __future__ import annotations

from msprobe.compare.console import console_text
from msprobe.compare.report import write_report
from msprobe.compare.verdict_file import write_verdict
from msprobe.files.atomic_file import write_text
from msprobe.native import core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.compare.culprit import Culprit
    from msprobe.compare.result import CompareResult

_MOST_TABLES = 3  # named on the screen


def write_outputs(
    result: CompareResult,
    culprits: list[Culprit],
    *,
    junit: bool = False,
    sarif: bool = False,
) -> list[Path]:
    """Writes verdict.json, report.html and what else is asked for into the output folder, where those of an
    earlier comparison are replaced, and the answer into the tables. Returns what a person may want to open,
    the most useful first. Raises IoError.
    """
    folder = result.output
    _fill_covers(result, culprits)
    files = [folder / "report.html"]
    write_report(files[0], result, culprits)
    if junit:
        from msprobe.compare.junit import junit_xml  # it loads much of the standard library

        files.append(folder / "junit.xml")
        write_text(files[-1], junit_xml(result, culprits))
    if sarif:
        from msprobe.compare.sarif import sarif_json

        files.append(folder / "result.sarif")
        write_text(files[-1], sarif_json(result, culprits))
    tables = [pair.table for pair in result.pairs if pair.table is not None]
    files += tables if len(tables) <= _MOST_TABLES else []
    files.append(folder / "verdict.json")
    write_verdict(files[-1], result, culprits)  # last: where it is, everything is
    return files


def _fill_covers(result: CompareResult, culprits: list[Culprit]) -> None:
    """The answer about the whole comparison, as it stands on the screen, on the sheet that is seen first."""
    lines = console_text(result, culprits).splitlines()
    for pair in result.pairs:
        if pair.table is not None and pair.table.suffix == ".xlsx":
            core.replace_cover(pair.table, lines)
