# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""accuracy_checking_result_{time}.csv and accuracy_checking_details_{time}.csv: appended row by row, by
several processes at the same time, and continued after an interruption.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.compat.accuracy.details import DETAILS_HEADER
from msprobe.files.appending import append_rows, csv_text
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.csv_cells import cells_of, unguarded
from msprobe.files.regular_file import read_text
from msprobe.files.result_time import unused_time
from msprobe.native import FormatError, InvalidArgument, IoError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.compat.accuracy.checker import CallResult

RESULT_HEADER = ["API name", "Forward Test Success", "Backward Test Success", "Message"]
STEP = "Step"
"""Last column of the files of an online check."""
_NAME = re.compile(r"accuracy_checking_result_([0-9]{14})(_rank[0-9]+)?\.csv")
_MODE = 0o640
_BOM = "\ufeff"


@dataclass(frozen=True)
class Form:
    """The columns of both files."""

    results: Sequence[str]
    details: Sequence[str]


FORM = Form(RESULT_HEADER, DETAILS_HEADER)


@dataclass(frozen=True)
class ResultFiles:
    """A pair of files. Each call is one append to each of them, the details first: a call that stands in the
    results has its details, whenever the process was ended.
    """

    results: Path
    details: Path
    precision: int = 14
    has_steps: bool = False
    """Rows end with the number of a step."""
    form: Form = field(default_factory=lambda: FORM)

    @property
    def time(self) -> str:
        match = _NAME.fullmatch(self.results.name)
        return match[1] if match else ""

    def write(self, result: CallResult, step: int | None = None) -> None:
        """Raises IoError."""
        end = [str(step)] if self.has_steps else []
        if result.forward_details or result.backward_details:
            append_rows(self.details, [[*row, *end] for row in self.detail_rows(result)])
        row = _result_row(result)
        if self.has_steps:
            row += [""] * (len(RESULT_HEADER) - len(row)) + end
        append_rows(self.results, [row])

    def detail_rows(self, result: CallResult) -> list[list[str]]:
        return [
            [f"{result.name}.{direction}.output.{i}", *detail.cells(self.precision)]
            for direction, details in (
                ("forward", result.forward_details),
                ("backward", result.backward_details),
            )
            for i, detail in enumerate(details)
        ]


def _result_row(result: CallResult) -> list[str]:
    row = [result.name, result.forward, result.backward]
    return row if result.message is None else [*row, result.message]


def new_files(folder: str, precision: int, rank: int | None = None, form: Form = FORM) -> ResultFiles:
    """With their headers, in `folder`, which is made if needed. rank: of an online check, whose rows have a
    step. Raises IoError.
    """
    suffix = "" if rank is None else f"_rank{rank}"
    extra = [] if rank is None else [STEP]
    directory = make_directory(folder)

    def pair(time: str) -> tuple[Path, Path]:
        return (
            directory / f"accuracy_checking_result_{time}{suffix}.csv",
            directory / f"accuracy_checking_details_{time}{suffix}.csv",
        )

    results, details = pair(unused_time(lambda time: any(path.exists() for path in pair(time))))
    write_header(details, [*form.details, *extra])
    write_header(results, [*form.results, *extra])
    return ResultFiles(results, details, precision, has_steps=rank is not None, form=form)


def continued_files(path: str, precision: int, form: Form = FORM) -> tuple[ResultFiles, set[str]]:
    """The pair of an interrupted run, and the names of the calls that it has. Rows that were cut, and details
    of calls without a result, are taken out. Raises InvalidArgument, FormatError, IoError.
    """
    results = Path(path)
    match = _NAME.fullmatch(results.name)
    if match is None or match[2]:  # those of an online check have a rank
        raise InvalidArgument(
            f"{path}: expected the name accuracy_checking_result_ with 14 digits and .csv, as it was written"
        )
    details = results.with_name(results.name.replace("result", "details"))
    rows = read_rows(results, form.results)
    names = {row[0] for row in rows}
    kept = [row for row in read_rows(details, form.details) if _call_of(row[0]) in names]
    write_text(details, _BOM + csv_text([form.details, *kept]))
    write_text(results, _BOM + csv_text([form.results, *rows]))
    return ResultFiles(results, details, precision, form=form), names


def _call_of(row: str) -> str:
    """ "Torch.add.0" of "Torch.add.0.forward.output.0"."""
    return row.rsplit(".", 3)[0]


# ---- csv as mindstudio-probe writes it


def write_header(path: Path, header: Sequence[str]) -> None:
    write_text(path, _BOM + csv_text([header]))
    os.chmod(path, _MODE)


def read_rows(path: Path, header: Sequence[str]) -> list[list[str]]:
    """The whole rows below the header. Raises IoError, and FormatError for another header or no csv."""
    found, *rows = read_table(path)
    if found[: len(header)] != list(header):
        raise FormatError(f"{path}: expected the columns {', '.join(header[:4])}, ...")
    return rows


def read_table(path: Path) -> list[list[str]]:
    """All rows, the header first; a last row that was cut is left out. Raises IoError, FormatError."""
    try:
        text = read_text(path, encoding="utf-8-sig")
    except OSError as error:
        result = IoError(f"{path}: cannot be read: {error.strerror}")
        result.errno, result.filename = error.errno, str(path)
        raise result from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: byte {error.start}: expected UTF-8 text") from error
    rows = [[unguarded(cell) for cell in row] for row in cells_of(text, path)]
    if not text.endswith(("\n", "\r")):
        rows = rows[:-1]
    if not rows:
        raise FormatError(f"{path}: expected csv with a header, found none")
    return rows[:1] + [row for row in rows[1:] if row]
