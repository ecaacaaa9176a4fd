# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a comparison: result.xlsx, result.json, report.html and the contents of both packs."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.config_check.packs import pack
from msprobe.config_check.report import report_html
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.left_out import joined
from msprobe.native import InvalidArgument, IoError, __version__, core

if TYPE_CHECKING:
    from msprobe.config_check.checks.check_result import Difference
    from msprobe.config_check.comparison import ConfigComparison
    from msprobe.config_check.packs.pack_reader import Pack

_TABLE, _JSON, _PAGE = "result.xlsx", "result.json", "report.html"
_SIDES = ("bench", "cmp")
_UNFINISHED = ".config_check_result.tmp"  # in the folder: a result that is not complete yet
_SUMMARY_COLUMNS = ("filename", "pass_check")
_MOST_IN_JSON = 10_000  # differences


def check_output(
    folder: Path, packs: tuple[Path, ...], *, replaces_earlier: bool = True, force: bool = False
) -> None:
    """Whether `folder` may be used: it is not there, is empty, or holds an earlier result, which
    `replaces_earlier` says may be replaced. Anything else is deleted with `force` only, and never a pack that
    is compared or a folder that this process works in. Raises InvalidArgument; changes nothing.
    """
    if not replaces_earlier and (folder / _JSON).exists():
        raise InvalidArgument(
            f"{folder}: there are results already; choose another folder, or replace them with force=True"
        )
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
            "deleted; choose another folder, or let everything in it be deleted with force=True"
        )
    inside = [str(path) for path in packs if folder.resolve() in path.resolve().parents]
    if inside:
        raise InvalidArgument(f"{folder}: cannot be deleted, it holds {inside[0]}, which is compared")
    here = Path.cwd().resolve()
    if folder.resolve() in (here, *here.parents, Path.home().resolve()):
        raise InvalidArgument(f"{folder}: is not deleted: it is, or holds, the working directory or home")


def write_outputs(
    folder: Path, result: ConfigComparison, reference: Pack, target: Pack, *, with_packs: bool = True
) -> list[Path]:
    """Fills `folder`, which check_output() allowed; returns what a person may want to open, the most useful
    first. with_packs: also the entries of both, as files. What was there stays until all is written. Raises
    IoError.
    """
    is_new = not folder.exists()
    unfinished = folder / _UNFINISHED
    try:
        make_directory(folder)
        _remove(unfinished)
        make_directory(unfinished)
        _fill(
            unfinished, result, {name: pack for name, pack in zip(_SIDES, (reference, target)) if with_packs}
        )
        _replace(folder, unfinished)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    return [folder / _PAGE, folder / _TABLE, folder / _JSON]


def _fill(folder: Path, result: ConfigComparison, packs: dict[str, Pack]) -> None:
    for name, side in packs.items():
        make_directory(folder / name)
        side.extract(folder / name)
    _write_table(folder / _TABLE, result)
    write_text(folder / _PAGE, report_html(result))
    write_text(folder / _JSON, result_json(result))


def result_json(result: ConfigComparison) -> str:
    """docs/formats/config_check.md"""
    content = {
        "version": __version__,
        "verdict": result.status,
        "sentence": result.sentence,
        "bench": str(result.reference),
        "cmp": str(result.target),
        "checks": {
            check.name: {
                "pass": check.passed,
                "rows": len(check.rows),
                "differences": len(check.differences),
            }
            for check in result.checks
        },
        "differences": [
            {**_difference(one.difference), "likelihood": one.likelihood, "reason": one.reason}
            for one in result.ranked[:_MOST_IN_JSON]
        ],
        "notes": result.notes,
        "problems": result.problems,
        "left_out": [one.content for one in joined(result.left_out)],
    }
    return json.dumps(content, indent=2) + "\n"


def _difference(one: Difference) -> dict[str, object]:
    """With the words of the file: bench is the reference, cmp the target."""
    words = {"reference": "bench", "target": "cmp"}
    return {words.get(key, key): value for key, value in asdict(one).items()}


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
        if name in _SIDES and _is_folder(path):
            for inner in sorted(path.rglob("*")):
                if inner.is_symlink() or not (inner.is_dir() or pack.place(str(inner.relative_to(path)))):
                    return str(inner)
        elif name not in (_TABLE, _JSON, _PAGE, _UNFINISHED) or _is_folder(path) != (name == _UNFINISHED):
            return str(path)
    is_result = any(name in (_TABLE, _JSON, _UNFINISHED) for name in names)
    return None if is_result else str(folder / names[0])


def _replace(folder: Path, unfinished: Path) -> None:
    """Puts what is in `unfinished` in the place of everything else in `folder`."""
    try:
        for path in folder.iterdir():
            if path != unfinished:
                _remove(path)
        for name in (*_SIDES, _TABLE, _PAGE, _JSON):  # the last one: where it is, everything is
            if name not in _SIDES or (unfinished / name).exists():
                (unfinished / name).rename(folder / name)
        unfinished.rmdir()
    except OSError as error:
        result = IoError(f"cannot replace the result in {folder}: {error.strerror or error}")
        result.errno, result.filename = error.errno, str(folder)
        raise result from error


def _remove(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
