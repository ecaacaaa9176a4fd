# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Merging the results of several ranks: one sheet per index, one column per rank."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from msprobe.compat.merge_result.result_table import NAME, Cell, ResultTable, as_shown, read_result
from msprobe.files.atomic_file import make_directory
from msprobe.files.yaml_file import kind_of, read_mapping
from msprobe.native import InvalidArgument, core, log

_RESULT_NAME = re.compile(
    r"compare_result_rank(?P<rank>[0-9]{1,9})?(?:-rank(?P<bench>[0-9]{1,9})?)?_[0-9]{14}\.(?:xlsx|csv)"
)
_MERGED_NAME = re.compile(r"multi_ranks_compare_merge_[0-9]{14}\.xlsx")
_NO_NUMBER = ("N/A", "unsupported", "Nan")  # shown as the two maxima instead
_NPU_MAX, _BENCH_MAX = "NPU max", "Bench max"

_Row = tuple[str, int]  # a name, and how often it stood before in the same result


@dataclass(frozen=True)
class MergeConfig:
    """What to merge: rows whose name matches one of `apis`, and the columns `indices`; none: all."""

    path: str
    apis: list[str]
    indices: list[str] | None

    @property
    def patterns(self) -> list[re.Pattern[str]]:
        return [re.compile(rf"(?:{api})\.") for api in self.apis]


@dataclass
class _Merged:
    """Cells by index, row and rank; rows in the order in which they were met."""

    indices: tuple[str, ...]
    ranks: list[int]
    rows: dict[_Row, None] = field(default_factory=dict)
    cells: dict[tuple[str, _Row, int], Cell] = field(default_factory=dict)


def merge_result(input_dir: str, output_dir: str, config_path: str) -> Path:
    """Merges compare_result_rank*.xlsx (or .csv) of `input_dir` as the YAML file `config_path` says.

    Returns the file written, multi_ranks_compare_merge_{time}.xlsx in `output_dir`, which is made if needed.
    Raises InvalidArgument, FormatError, IoError; then nothing is written.
    """
    config = read_config(config_path)
    files = result_files(input_dir)
    merged = _merge(files, config)
    output = make_directory(output_dir) / time.strftime("multi_ranks_compare_merge_%Y%m%d%H%M%S.xlsx")
    _write(output, merged)
    return output


def read_config(path: str) -> MergeConfig:
    """Raises InvalidArgument that names the file and the key."""
    content = read_mapping(path)
    for key in content:
        if key not in ("api", "compare_index"):
            log.warning('%s: "%s" is ignored, expected the keys "api" and "compare_index"', path, key[:60])
    if "api" not in content:
        raise InvalidArgument(f'{path}: "api": expected a list of operator names, found no such key')
    apis = _texts(path, "api", content["api"])
    for api in apis:
        try:
            re.compile(api)
        except re.error as error:
            raise InvalidArgument(
                f'{path}: "api": expected regular expressions, found "{api[:60]}": {error}'
            ) from error
    wanted = content.get("compare_index")
    return MergeConfig(path, apis, None if wanted is None else _texts(path, "compare_index", wanted))


def _texts(path: str, key: str, value: object) -> list[str]:
    if not isinstance(value, list):
        raise InvalidArgument(f'{path}: "{key}": expected a list, found {kind_of(value)}')
    for item in value:
        if not isinstance(item, str) or not item:
            found = "empty text" if item == "" else kind_of(item)
            raise InvalidArgument(f'{path}: "{key}": expected a list of texts, found {found} in it')
    if not value:
        raise InvalidArgument(f'{path}: "{key}": expected at least one entry, found an empty list')
    return list(dict.fromkeys(value))


def result_files(folder: str) -> dict[int, str]:
    """The results in `folder` by rank, in the order of ranks. Raises InvalidArgument."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InvalidArgument(f"{folder}: expected a folder of results: {error.strerror}") from error
    files: dict[int, str] = {}
    for name in names:
        match = _RESULT_NAME.fullmatch(name)
        if match is None:
            _check_stray(folder, name)
            continue
        if match["rank"] is None:
            log.warning("%s: the name has no rank, it is merged as rank 0", name)
        rank = int(match["rank"] or 0)
        if rank in files:
            raise InvalidArgument(
                f"{folder}: expected one result for rank {rank}, found "
                f"{os.path.basename(files[rank])} and {name}"
            )
        files[rank] = os.path.join(folder, name)
    if len(files) < 2:
        raise InvalidArgument(
            f"{folder}: expected at least two results called compare_result_rank{{N}}_{{time}}.xlsx or .csv, "
            f"found {len(files)}"
        )
    return dict(sorted(files.items()))


def _check_stray(folder: str, name: str) -> None:
    """A spreadsheet of another name may be a renamed result: it must not be left out silently."""
    if name.startswith((".", "~$")) or _MERGED_NAME.fullmatch(name):  # hidden, opened in Excel, our own
        return
    if name.endswith(".xlsx") or (name.endswith(".csv") and "compare_result" in name):
        raise InvalidArgument(
            f"{folder}: expected only results called compare_result_rank{{N}}_{{time}}.xlsx, found {name}"
        )


def _merge(files: dict[int, str], config: MergeConfig) -> _Merged:
    patterns = config.patterns
    used: set[re.Pattern[str]] = set()
    merged: _Merged | None = None
    first = ""
    for rank, path in files.items():
        table = read_result(path)
        indices = table.indices
        if merged is None:
            first = path
            merged = _Merged(_wanted(config, indices, path), list(files))
            mode = indices
        elif indices != mode:
            raise InvalidArgument(
                f"{path}: expected a comparison of the same kind as {first}: one is of real data, "
                "the other of statistics"
            )
        _take(table, rank, patterns, merged, used)
    assert merged is not None  # result_files() gives two at least
    for pattern, api in zip(patterns, config.apis):
        if pattern not in used:
            log.warning('%s: "api": no result has a row for "%s"', config.path, api[:60])
    if not merged.rows:
        raise InvalidArgument(
            f'{config.path}: "api": expected names of operators in the results, found none that matches a row'
        )
    return merged


def _wanted(config: MergeConfig, indices: tuple[str, ...], path: str) -> tuple[str, ...]:
    for name in config.indices or ():
        if name not in indices:
            raise InvalidArgument(
                f'{config.path}: "compare_index": expected columns of {os.path.basename(path)} ('
                f'{", ".join(indices)}), found "{name[:60]}"'
            )
    return tuple(config.indices or indices)


def _take(
    table: ResultTable,
    rank: int,
    patterns: list[re.Pattern[str]],
    merged: _Merged,
    used: set[re.Pattern[str]],
) -> None:
    """Adds the matching rows of one result."""
    name_at = table.column(NAME)
    maxima_at = table.column(_NPU_MAX), table.column(_BENCH_MAX)
    index_at = [(index, table.column(index)) for index in merged.indices]
    times: dict[str, int] = {}
    for cells in table.rows:
        name = str(cells[name_at])
        matching = [pattern for pattern in patterns if pattern.search(name)]
        if not matching:
            continue
        used.update(matching)
        row = (name, times.get(name, 0))
        times[name] = row[1] + 1
        merged.rows[row] = None
        for index, at in index_at:
            cell = cells[at]
            if cell in _NO_NUMBER:
                target, reference = (as_shown(cells[maximum]) for maximum in maxima_at)
                cell = f"NPU:{target}  Bench:{reference}"
            merged.cells[index, row, rank] = as_shown(cell)


def _write(path: Path, merged: _Merged) -> None:
    with core.SheetWriter(path) as writer:
        for index in merged.indices:
            writer.begin_sheet(index, [NAME, *(f"rank{rank}" for rank in merged.ranks)])
            for row in merged.rows:
                writer.add_row([row[0], *(merged.cells.get((index, row, rank)) for rank in merged.ranks)])
