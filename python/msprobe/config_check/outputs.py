# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a comparison: result.xlsx, result.json, report.html and the contents of both packs."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.atomic_file import make_directory, write_text
from msprobe.config_check import pack
from msprobe.config_check.report import report_html
from msprobe.config_check.wording import sentence
from msprobe.native import InvalidArgument, IoError, __version__, core

if TYPE_CHECKING:
    from msprobe.config_check.comparison import ConfigComparison
    from msprobe.config_check.pack_reader import Pack

_TABLE, _JSON, _PAGE = "result.xlsx", "result.json", "report.html"
_SIDES = ("bench", "cmp")
_SUMMARY_COLUMNS = ("filename", "pass_check")
_MOST_IN_JSON = 10_000  # differences


def check_output(folder: Path, packs: tuple[Path, ...], *, force: bool = False) -> None:
    """Whether `folder` may be used: it is not there, is empty, or holds an earlier result, which will be
    replaced. Anything else is deleted with `force` only, and never a pack that is compared or a folder that
    this process works in. Raises InvalidArgument; changes nothing.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    if not folder.is_dir():
        raise InvalidArgument(f"{folder}: expected a folder for the result, found a file")
    foreign = _foreign(folder)
    if not foreign:
        return
    if not force:
        raise InvalidArgument(
            f"{folder}: expected a new or empty folder or an earlier result, found {foreign}: nothing was "
            "deleted; choose another folder, or let everything in it be deleted with --force"
        )
    inside = [str(path) for path in packs if folder.resolve() in path.resolve().parents]
    if inside:
        raise InvalidArgument(f"{folder}: cannot be deleted, it holds {inside[0]}, which is compared")
    here = Path.cwd().resolve()
    if folder.resolve() in (here, *here.parents, Path.home().resolve()):
        raise InvalidArgument(f"{folder}: is not deleted: it is, or holds, the working directory or home")


def write_outputs(folder: Path, result: ConfigComparison, bench: Pack, cmp: Pack) -> list[Path]:
    """Fills `folder`, which check_output() allowed; returns what a person may want to open, the most useful
    first. Raises IoError.
    """
    _empty(folder)
    make_directory(folder)
    for name, side in zip(_SIDES, (bench, cmp)):
        make_directory(folder / name)
        side.extract(folder / name)
    _write_table(folder / _TABLE, result)
    write_text(folder / _PAGE, report_html(result))
    write_text(folder / _JSON, result_json(result))  # last: where it is, everything is
    return [folder / _PAGE, folder / _TABLE, folder / _JSON]


def result_json(result: ConfigComparison) -> str:
    """docs/formats/config_check.md"""
    content = {
        "version": __version__,
        "verdict": "agree" if result.agree else "differ",
        "sentence": sentence(result),
        "bench": str(result.bench),
        "cmp": str(result.cmp),
        "checks": {
            check.name: {
                "pass": check.passed,
                "rows": len(check.rows),
                "differences": len(check.differences),
            }
            for check in result.checks
        },
        "differences": [
            {**asdict(one.difference), "likelihood": one.likelihood, "reason": one.reason}
            for one in result.ranked[:_MOST_IN_JSON]
        ],
        "notes": result.notes,
        "problems": result.problems,
    }
    return json.dumps(content, indent=2) + "\n"


def _write_table(path: Path, result: ConfigComparison) -> None:
    with core.SheetWriter(path) as writer:
        writer.begin_sheet("summary", _SUMMARY_COLUMNS)
        for check in result.checks:
            writer.add_row([check.name, check.passed])
        for check in result.checks:
            writer.begin_sheet(check.name, check.columns)
            for row in check.rows:
                writer.add_row(row)


def _foreign(folder: Path) -> str | None:
    """Something in `folder` that no comparison put there."""
    names = sorted(path.name for path in folder.iterdir())
    if not names:
        return None
    for name in names:
        path = folder / name
        if name in _SIDES and path.is_dir() and not path.is_symlink():
            for inner in sorted(path.rglob("*")):
                if inner.is_symlink() or not (inner.is_dir() or pack.place(str(inner.relative_to(path)))):
                    return str(inner)
        elif name not in (_TABLE, _JSON, _PAGE):
            return str(path)
    return None if _TABLE in names or _JSON in names else str(folder / names[0])


def _empty(folder: Path) -> None:
    if not folder.is_dir():
        return
    try:
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        result = IoError(f"cannot empty {folder}: {error.strerror or error}")
        result.errno, result.filename = error.errno, str(folder)
        raise result from error
