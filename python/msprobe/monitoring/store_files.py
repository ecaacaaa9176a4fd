# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a run: new ones, or those of the training which goes on."""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import write_text
from msprobe.native import Error, IoError, core, log

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe._core import MonitorStoreWriter

_NAME = re.compile(r"monitor(\.rank([0-9]{1,9}))?\.db")


def record_name(rank: int | None, ending: str = "db") -> str:
    """Of a file of the record. rank: of the process whose values alone are in it, or of the first of those
    whose values are; None: the values are those of all, or of a group with the first process.
    """
    return f"monitor{'' if rank is None else f'.rank{rank}'}.{ending}"


def stores_in(folder: Path) -> list[Path]:
    """That of all processes first, then by rank."""
    found = []
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name)
        if match is not None and path.is_file():
            found.append((int(match[2]) if match[2] else -1, path))
    return [path for _, path in sorted(found)]


def open_store(path: Path, start: int, info: dict[str, str]) -> MonitorStoreWriter:
    """With a step above 0 the record in `path` goes on: what it has from there on is replaced. At step 0 an
    earlier one is kept under another name. Raises IoError and FormatError.
    """
    resumes = os.path.lexists(path) and start > 0
    if os.path.lexists(path) and not resumes:
        _put_aside(path)
    options: dict[str, Any] = {"resume_at": start} if resumes else {}
    store = core.MonitorStoreWriter(path, info=info, **options)
    if resumes:
        log.info("%s: the record goes on at step %d", path, start)
    return store


def continue_csv(path: Path, start: int) -> None:
    """Lines of a csv of the monitor from step `start` on go: that training writes them anew. At step 0 the
    file is kept under another name. Raises IoError.
    """
    try:
        if not _goes_on(path, start):
            return
        with path.open("r+b") as file:
            at = 0
            for line in file:
                if _step_of_row(line) >= start:
                    file.truncate(at)
                    return
                at += len(line)
    except OSError as error:
        raise _cannot_write(path, error) from error


def continue_alarms(path: Path, start: int) -> None:
    """The same of alarms, of which some processes may write into one file."""
    try:
        if not _goes_on(path, start):
            return
        lines = path.read_text("utf-8", "replace").splitlines(keepends=True)
        kept = [line for line in lines if _step_of_alarm(line) < start]
    except OSError as error:
        raise _cannot_write(path, error) from error
    if len(kept) < len(lines):
        write_text(path, "".join(kept))


def _goes_on(path: Path, start: int) -> bool:
    """Whether there is a file with steps before `start`. At step 0 it is kept under another name."""
    if not path.is_file():
        return False
    if start == 0:
        os.rename(path, _free_name(path))
        return False
    return True


def _step_of_row(line: bytes) -> int:
    step = line.partition(b",")[0]
    return int(step) if step.isdigit() else -1


def _step_of_alarm(line: str) -> int:
    with contextlib.suppress(ValueError, RecursionError):
        step = json.loads(line).get("step") if line.startswith("{") else -1
        return step if isinstance(step, int) else -1
    return -1


def _cannot_write(path: Path, error: OSError) -> IoError:
    return IoError(f"cannot write {path}: {error.strerror}")


def _put_aside(path: Path) -> None:
    is_empty = _is_without_steps(path)
    kept = _free_name(path)
    for ending in ("", "-wal", "-shm"):
        name = f"{path}{ending}"
        if os.path.lexists(name):
            if is_empty:
                os.unlink(name)
            else:
                os.rename(name, f"{kept}{ending}")
    if not is_empty:
        log.warning("%s: the record of an earlier run is kept as %s", path, kept.name)


def _is_without_steps(path: Path) -> bool:
    try:
        steps: int = core.MonitorStoreReader(path).extent()[0]
    except Error:  # whatever it is, it is not ours to remove
        return False
    return steps == 0


def _free_name(path: Path) -> Path:
    number = 1
    while os.path.lexists(kept := path.with_name(f"{path.name}.{number}")):
        number += 1
    return kept
