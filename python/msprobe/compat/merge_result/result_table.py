# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Reading the results of a comparison back: compare_result*.xlsx and .csv."""

from __future__ import annotations

import math
import os
import re
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Union

from msprobe.files.regular_file import open_to_read
from msprobe.native import FormatError, InvalidArgument, UnsupportedError, core

if TYPE_CHECKING:
    from collections.abc import Iterator

Cell = Union[str, float, int]  # an empty cell is ""

NAME = "NPU Name"
REAL_DATA_INDICES = (
    "Cosine",
    "EucDist",
    "MaxAbsErr",
    "MaxRelativeErr",
    "One Thousandth Err Ratio",
    "Five Thousandths Err Ratio",
)
STATISTICS_INDICES = (
    "Max diff",
    "Min diff",
    "Mean diff",
    "L2norm diff",
    "MaxRelativeErr",
    "MinRelativeErr",
    "MeanRelativeErr",
    "NormRelativeErr",
)
MD5 = "NPU MD5"

_SHEET = re.compile(r"Sheet(_part_([0-9]+))?$")
_LARGEST_FILE = 1 << 30
_LARGEST_CONTENT = 4 << 30  # unpacked
# Excel files shrink to a tenth; deflate can do a thousandth, with nothing but zeros.
_MOST_SHRINKING = 200
_SMALL = 64 << 20
_CHUNK = 1 << 20

_CELL = re.compile(rb"<(?:\w+:)?c[\s/>]")
_CELL_PLACE = re.compile(rb'<(?:\w+:)?c\s(?:[^<>]*?\s)?r="([A-Z]{1,3})([0-9]{1,7})"')
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class ResultTable:
    """One result: its columns, and its rows as cells in the order of the columns."""

    path: str
    columns: list[str]
    rows: list[list[Cell]]

    def column(self, name: str) -> int:
        """The place of a column. Raises FormatError when it is missing."""
        if name not in self.columns:
            raise FormatError(f'{self.path}: expected a column "{name}", found {_shown(self.columns)}')
        return self.columns.index(name)

    @property
    def indices(self) -> tuple[str, ...]:
        """The columns that say how far two tensors are apart. Raises InvalidArgument for a result of md5,
        which has none, and FormatError for what is no result of a comparison.
        """
        for indices in (REAL_DATA_INDICES, STATISTICS_INDICES):
            if all(name in self.columns for name in indices):
                return indices
        if MD5 in self.columns:
            raise InvalidArgument(
                f"{self.path}: found a comparison of md5, expected one of real data or of statistics: "
                "equal or different cannot be merged"
            )
        raise FormatError(
            f"{self.path}: expected the columns of a comparison of real data ({REAL_DATA_INDICES[0]}, ...) "
            f"or of statistics ({STATISTICS_INDICES[0]}, ...), found {_shown(self.columns)}"
        )


def read_result(path: str) -> ResultTable:
    """Reads compare_result*.xlsx or .csv; in an xlsx the sheet called Sheet, or its parts.

    Raises FormatError for what is damaged or no such table, InvalidArgument for what cannot be read.
    """
    try:
        size = os.path.getsize(path)
        if size > _LARGEST_FILE:
            raise FormatError(f"{path}: expected at most 1 GiB, found {size} bytes")
        rows = _csv_rows(path) if path.endswith(".csv") else _xlsx_rows(path)
    except OSError as error:
        raise InvalidArgument(f"{path}: cannot read the result: {error.strerror or error}") from error
    columns = [str(cell) for cell in rows[0]] if rows else []
    if NAME not in columns:
        raise FormatError(f'{path}: expected a first row with the column "{NAME}", found {_shown(columns)}')
    return ResultTable(path, columns, rows[1:])


def as_shown(cell: Cell) -> Cell:
    """A whole number as an integer, as spreadsheets show it; other cells as they are."""
    if isinstance(cell, float):
        if math.isfinite(cell):
            return int(cell) if cell.is_integer() and abs(cell) < 2**53 else cell
        return str(cell)
    return cell


def _shown(columns: list[str]) -> str:
    return ", ".join(f'"{name[:40]}"' for name in columns[:6]) + (", ..." if len(columns) > 6 else "")


# ---- csv


def _csv_rows(path: str) -> list[list[Cell]]:
    header, rows = core.read_csv(path)
    return [[*header], *([_from_text(cell) for cell in row] for row in rows)]


def _from_text(cell: str) -> Cell:
    """A csv has no types: what looks like a number is one."""
    return float(cell) if len(cell) <= 40 and _NUMBER.fullmatch(cell) else cell


# ---- xlsx


def _xlsx_rows(path: str) -> list[list[Cell]]:
    try:
        import python_calamine as calamine
    except ImportError as error:
        raise UnsupportedError(
            f"{path}: reading an xlsx needs the package python-calamine, which is not installed: "
            "`pip install python-calamine`, or compare into .csv"
        ) from error
    _check_archive(path)
    try:
        book = calamine.CalamineWorkbook.from_path(path)
        rows: list[list[Cell]] = []
        for name in _table_sheets(path, book.sheet_names):
            part = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
            # Each part repeats the header.
            rows += ([_plain(cell) for cell in row] for row in part[1 if rows else 0 :])
        return rows
    except calamine.CalamineError as error:
        raise FormatError(f"{path}: expected an xlsx file: {error}") from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # a file that the reader never thought of
            raise FormatError(f"{path}: expected an xlsx file, found one that cannot be read") from error
        raise


def _table_sheets(path: str, names: list[str]) -> list[str]:
    """The only sheet, whatever its name: pandas and Excel call it Sheet1. Of several that of msprobe."""
    if len(names) == 1:
        return names
    found = {int(match[2] or -1): name for name in names if (match := _SHEET.match(name))}
    if not found:
        raise FormatError(f"{path}: expected a sheet called Sheet, found {_shown(names)}")
    return [found[part] for part in sorted(found)]


def _plain(cell: object) -> Cell:
    return cell if isinstance(cell, (str, float, int)) and not isinstance(cell, bool) else str(cell)


def _check_archive(path: str) -> None:
    """Refuses what would fill the memory: the reader makes room for every cell up to the last row and column,
    and for whatever comes out of the archive. Raises FormatError.
    """
    try:
        with open_to_read(path) as file, zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
            packed = sum(part.compress_size for part in parts)
            content = sum(part.file_size for part in parts)
            if content > _LARGEST_CONTENT or content > max(packed * _MOST_SHRINKING, _SMALL):
                raise FormatError(
                    f"{path}: expected a spreadsheet, found {packed} bytes that unpack to {content}"
                )
            for part in parts:
                if part.filename.startswith("xl/worksheets/") and part.filename.endswith(".xml"):
                    with archive.open(part) as sheet:
                        _check_sheet(f"{path}: {part.filename}", sheet)
    except FormatError:
        raise
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError) as error:
        raise FormatError(f"{path}: expected an xlsx file: {error}") from error


def _check_sheet(where: str, file: IO[bytes]) -> None:
    cells = most_columns = most_rows = 0
    for chunk in _chunks(where, file):
        places = _CELL_PLACE.findall(chunk)
        if len(places) != len(_CELL.findall(chunk)):
            raise FormatError(f'{where}: expected every cell to have its place (r="A1")')
        if places:
            cells += len(places)
            most_columns = max(most_columns, *map(_column_number, {letters for letters, _ in places}), 0)
            most_rows = max(most_rows, *map(int, {row for _, row in places}), 0)
    if most_columns * most_rows > 100 * cells + 1_000_000:
        raise FormatError(
            f"{where}: expected a table, found {cells} cells scattered over {most_rows} rows and "
            f"{most_columns} columns"
        )


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - ord("A") + 1
    return number


def _chunks(where: str, file: IO[bytes]) -> Iterator[bytes]:
    """The text of a sheet, cut between elements."""
    rest = b""
    while chunk := file.read(_CHUNK):
        text = rest + chunk
        end = text.rfind(b">") + 1
        rest = text[end:]
        yield text[:end]
        if len(rest) > 100 * _CHUNK:
            raise FormatError(f"{where}: expected XML, found no element")
    yield rest
