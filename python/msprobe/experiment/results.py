# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The folder of an experiment. What a run wrote stays where the experiment fails, too: it says why."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from msprobe.experiment.plan import FILE
from msprobe.files.atomic_file import make_directory
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def new_experiment(output: Path, answer: str, runs: Sequence[str], *, force: bool) -> None:
    """Makes the folder. Earlier results (the file `answer`, folders of runs that match `runs`) are refused,
    and removed with `force`; other files in it stay. Raises InvalidArgument.
    """
    found = [path for pattern in (answer, *runs) for path in sorted(output.glob(pattern))]
    if found and not force:
        raise InvalidArgument(
            f"{output}: there are results already ({found[0].name}); choose another name, or replace what is "
            "there with --force"
        )
    for path in found:
        if path.is_file():
            path.unlink()
        elif path.is_dir() and next(path.rglob(FILE), None) is not None:
            shutil.rmtree(path)
        else:
            raise InvalidArgument(f"{path}: is no folder of a run, and is not replaced; choose another -o")
    make_directory(output)
