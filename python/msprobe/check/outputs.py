# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files about a whole check, beside its table of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.check.report import write_report
from msprobe.check.verdict_file import write_verdict
from msprobe.files.atomic_file import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.check.result import CheckResult


# Names of the files that a check writes; see new_results().
RESULTS = ("verdict.json", "report.html", "junit.xml")
LOG = "calls.csv"


def write_outputs(result: CheckResult, *, junit: bool = False) -> list[Path]:
    """Writes report.html, verdict.json and on demand junit.xml into the output folder, where those of an
    earlier check are replaced. Returns what a person may want to open, the most useful first. Raises IoError.
    """
    folder = result.output
    if folder is None:
        return []
    files = [folder / "report.html"]
    write_report(files[0], result)
    if junit:
        from msprobe.check.junit import junit_xml  # it loads much of the standard library

        files.append(folder / "junit.xml")
        write_text(files[-1], junit_xml(result))
    files += [folder / "calls.csv", folder / "verdict.json"]
    write_verdict(files[-1], result)  # last: where it is, everything is
    return files
