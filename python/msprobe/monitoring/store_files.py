# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a run: new ones, or those of the training which goes on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msprobe.files.append_file import has_other_writer
from msprobe.files.regular_file import descriptor_of
from msprobe.native import IoError, log

if TYPE_CHECKING:
    from pathlib import Path


def record_name(rank: int | None, ending: str = "db") -> str:
    """Of a file of the record. rank: of the process whose values alone are in it, or of the first of those
    whose values are; None: the values are those of all, or of a group with the first process.
    """
    return f"monitor{'' if rank is None else f'.rank{rank}'}.{ending}"


def continue_csv(path: Path, start: int) -> None:
    """Lines of a csv of the monitor from step `start` on go: that training writes them anew. At step 0, and
    where another training still writes it, the file is kept under another name. Raises IoError.
    """
    try:
        if not _goes_on(path, start):
            return
        with open(descriptor_of(path, os.O_RDWR), "r+b") as file:
            if has_other_writer(file.fileno()):
                kept = _free_name(path)
                os.rename(path, kept)
                log.warning("%s: another training writes it: it goes on in %s", path, kept.name)
                return
            at = 0
            for line in file:
                if _step_of_row(line) >= start:
                    file.truncate(at)
                    return
                at += len(line)
    except OSError as error:
        raise _cannot_write(path, error) from error


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


def _cannot_write(path: Path, error: OSError) -> IoError:
    return IoError(f"cannot write {path}: {error.strerror}")


def _free_name(path: Path) -> Path:
    number = 1
    while os.path.lexists(kept := path.with_name(f"{path.name}.{number}")):
        number += 1
    return kept
