# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a recorded step costs on disk, told before the second one: there may be a thousand processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.files.loss_files import own_file
from msprobe.files.run_folder import DUMP, GRADIENTS, PACKED_GRADIENTS

if TYPE_CHECKING:
    from pathlib import Path

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"))


@dataclass(frozen=True)
class Cost:
    """Of one process. A file that all steps share counts as one of the run."""

    files_of_step: int
    bytes_of_step: int
    files_of_run: int

    def sentence(self, steps: int, processes: int) -> str:
        """steps: that are recorded; 0: all there are."""
        one = f"a recorded step is {_files(self.files_of_step)}, {size_text(self.bytes_of_step)} per process"
        if steps == 0:
            return f"{one}, {_files(self.files_of_step * processes)} in {_processes(processes)}"
        files = (self.files_of_step * steps + self.files_of_run) * processes
        size = size_text(self.bytes_of_step * steps * processes)
        several = f"{steps} step{'' if steps == 1 else 's'} of {_processes(processes)}"
        return f"{one}; {several}: {_files(files)}, {size}"


def cost_of(output: Path, rank: int, step: int, processes: int) -> Cost:
    """Of a run of which this step is recorded, and no other one as a whole. processes: how many it has."""
    gradients = output / GRADIENTS / f"rank{rank}"
    # A process that is alone has the folder `rank`.
    dumped = [
        path for name in {"rank", f"rank{rank}"} for path in _files_in(output / DUMP / f"step{step}" / name)
    ]
    of_step = [*dumped, *_files_in(gradients)]
    shared = [path for path in of_step if path.name == PACKED_GRADIENTS]
    joined = own_file(rank) if processes > 1 else None  # at the end with those of the other processes
    of_run = [path for path in output.glob(f"*.rank{rank}.*") if path.is_file() and path.name != joined]
    return Cost(
        files_of_step=len(of_step) - len(shared),
        bytes_of_step=sum(map(_size, of_step)),
        files_of_run=len(of_run) + len(shared),
    )


def size_text(size: float) -> str:
    """ "25 GB", "8.2 MB"."""
    unit, name = next(((unit, name) for unit, name in _UNITS if size >= unit), (1.0, "bytes"))
    number = size / unit
    return f"{number:.1f} {name}" if number < 10 and unit > 1 else f"{number:.0f} {name}"


def _files(number: int) -> str:
    return f"{number:,} file{'' if number == 1 else 's'}"


def _processes(number: int) -> str:
    return f"{number} process{'' if number == 1 else 'es'}"


def _files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
