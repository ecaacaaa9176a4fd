# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files about a whole comparison, beside the tables of its keys."""

from __future__ import annotations

import glob
import json
from typing import TYPE_CHECKING

from msprobe.files.atomic_file import write_text
from msprobe.files.new_results import new_results
from msprobe.files.regular_file import read_text
from msprobe.rl.comparison import compare_records, table_names
from msprobe.rl.report import report_html
from msprobe.rl.verdict_file import verdict_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from msprobe.rl.comparison import CompareOptions
    from msprobe.rl.result import RlResult, WeightResult

_RESULTS = ("verdict.json", "report.html", "junit.xml")
_MOST_TABLES = 3  # named on the screen


def compare_into(
    folder: Path,
    reference: Path | None,
    target: Path | None,
    options: CompareOptions,
    weights: Callable[[], WeightResult] | None = None,
    *,
    force: bool = False,
    junit: bool = False,
) -> tuple[RlResult, list[Path]]:
    """compare_records() with all of its files in `folder`: the answer, and what a person may want to open.
    weights: compares these, too. force: replace results that are there already; without it they are refused
    before anything is compared.

    Raises as compare_records().
    """
    tables = [] if reference is None or target is None else table_names(reference, target, options)
    with new_results(folder, _results_in(folder, tables), force=force):
        compared = None if weights is None else weights()
        result = compare_records(reference, target, folder, options, compared)
        return result, write_outputs(result, folder, junit=junit)


def _results_in(folder: Path, tables: Iterable[str]) -> list[str]:
    """Patterns for new_results(): what a comparison writes, `tables` among it, and what an earlier left."""
    names = {*tables, *_earlier_tables(folder)}
    # What is a folder is no table of ours, and stays.
    return [*_RESULTS, *(glob.escape(name) for name in sorted(names) if not (folder / name).is_dir())]


def _earlier_tables(folder: Path) -> list[str]:
    """Tables have the names of keys, which only the verdict beside them tells."""
    try:
        keys = json.loads(read_text(folder / "verdict.json"))["keys"]
        names = [str(key["table"]) for key in keys]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [name for name in names if name.endswith((".xlsx", ".csv")) and not {"/", "\0"} & {*name}]


def write_outputs(result: RlResult, folder: Path, *, junit: bool = False) -> list[Path]:
    """Returns what a person may want to open, the most useful first. Raises IoError."""
    files = [folder / "report.html"]
    write_text(files[0], report_html(result))
    if junit:
        from msprobe.rl.junit import junit_xml  # it loads much of the standard library

        files.append(folder / "junit.xml")
        write_text(files[-1], junit_xml(result))
    tables = [key.table for key in result.keys if key.table is not None]
    files += tables if len(tables) <= _MOST_TABLES else []
    files.append(folder / "verdict.json")
    write_text(files[-1], verdict_json(result))  # last: where it is, everything is
    return files
