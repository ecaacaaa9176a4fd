# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a comparison: OUT, and beside it a page and a report for automatic checks."""

from __future__ import annotations

from pathlib import Path

from msprobe.checkpoint.junit import junit_xml
from msprobe.checkpoint.report import report_html
from msprobe.checkpoint.similarity_file import write_similarity
from msprobe.files.atomic_file import make_directory, write_text

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from msprobe.checkpoint.limits import Failure
    from msprobe.checkpoint.result import CheckpointResult


def result_file(output: str | os.PathLike[str], name: str = "similarity.json") -> Path:
    """The file to write: `name` in the folder `output`, or `output` itself where it has the name of such a
    file.
    """
    path = Path(output)
    return path if path.suffix == ".json" and not path.is_dir() else path / name


def write_outputs(
    output: Path, result: CheckpointResult, failing: Sequence[Failure], *, junit: bool, report: bool
) -> list[Path]:
    """Returns what was written, the most useful first. Raises IoError."""
    files = []
    make_directory(output.parent)
    if report:
        files.append(output.with_suffix(".html"))
        write_text(files[-1], report_html(result, failing))
    if junit:
        files.append(output.with_suffix(".junit.xml"))
        write_text(files[-1], junit_xml(result, failing))
    files.append(output)
    write_similarity(output, result, extended=True)  # last: where it is, everything is
    return files
