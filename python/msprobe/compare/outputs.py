# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files about a whole comparison, beside the tables of its pairs."""

from __future__ import annotations

from msprobe.atomic_file import write_text
from msprobe.compare.junit import junit_xml
from msprobe.compare.report import write_report
from msprobe.compare.sarif import sarif_json
from msprobe.compare.verdict_file import write_verdict

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.compare.result import CompareResult
    from msprobe.compare.verdict_file import Culprit

_MOST_TABLES = 3  # named on the screen


def write_outputs(
    result: CompareResult, culprits: list[Culprit], *, junit: bool = False, sarif: bool = False
) -> list[Path]:
    """Writes verdict.json, report.html and what else is asked for into the output folder, where those of an
    earlier comparison are replaced. Returns what a person may want to open, the most useful first. Raises
    IoError.
    """
    folder = result.output
    files = [folder / "report.html"]
    write_report(files[0], result, culprits)
    if junit:
        files.append(folder / "junit.xml")
        write_text(files[-1], junit_xml(result, culprits))
    if sarif:
        files.append(folder / "result.sarif")
        write_text(files[-1], sarif_json(result, culprits))
    tables = [pair.table for pair in result.pairs if pair.table is not None]
    files += tables if len(tables) <= _MOST_TABLES else []
    files.append(folder / "verdict.json")
    write_verdict(files[-1], result, culprits)  # last: where it is, everything is
    return files
