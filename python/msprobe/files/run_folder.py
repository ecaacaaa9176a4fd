# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The folder of `msprobe run` (docs/formats/run.md): whatever takes a part of a run takes the run, too."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.files.loss_files import begins_at
from msprobe.files.regular_file import open_to_read
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN_FILE = re.compile(r"run\.rank([0-9]{1,9})\.json")

# Folders and files of a run, below its folder.
DUMP = "dump"
GRADIENTS = "grad_probe"
MONITOR = "monitor"
PERTURB = "perturb"
FREE_BENCHMARK = "free_benchmark"
CONFIG_PACK = "config_check.zip"
CONFIG_PARTS = f"{CONFIG_PACK}.parts"
"""The parts of the pack, until all processes have ended."""

PACKED_GRADIENTS = "gradients.msprobe"
"""The record of the gradients of one rank, in the layout packed."""


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is the folder of a run."""
    try:
        return any(RUN_FILE.fullmatch(name) for name in os.listdir(path))
    except OSError:  # a file, or not there: who opens it will say so
        return False


def ranks_of_run(path: Path) -> set[int]:
    """The ranks that have a run.rank{R}.json in the folder of a run; empty: it is none."""
    try:
        return {int(match[1]) for name in os.listdir(path) if (match := RUN_FILE.fullmatch(name))}
    except OSError:
        return set()


def dump_of(path: Path) -> Path:
    """The dump of a run; any other path as it is. Raises InvalidArgument for a run without one."""
    return _part_of(path, DUMP, "a dump")


def gradients_of(path: Path) -> Path:
    """The gradient record of a run; else as dump_of()."""
    return _part_of(path, GRADIENTS, "gradients")


def pack_of(path: Path) -> Path:
    """The config pack of a run; else as dump_of()."""
    if is_run(path) and (path / CONFIG_PARTS).exists():
        return path / CONFIG_PACK
    return _part_of(path, CONFIG_PACK, "a config pack")


_LARGEST_RUN_FILE = 1 << 20


def first_step_of(path: Path) -> int:
    """How many steps the optimizer had made when a run began, which was resumed; 0: none, or it is not known.
    `path` may also be a part of the run.
    """
    return first_step_in(_content_of(path))


def first_step_in(content: object) -> int:
    """The same of what a file run.rank{R}.json holds."""
    return _count(content, "first_step")


def optimizer_calls_of(path: Path) -> int:
    """How many optimizers step in each step of a run, as those of a GAN: gradient records count their calls.
    1 where that is not known, or another number in some steps. `path` may also be a part of the run.
    """
    content = _content_of(path)
    steps, calls = _count(content, "steps"), _count(content, "optimizer_steps")
    return calls // steps if steps > 0 and calls > 0 and calls % steps == 0 else 1


_TIME = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\+00:00")


def lifetime_in(content: object) -> tuple[str, str] | None:
    """When the process of a run.rank{R}.json began and ended: the earlier text is the smaller one. None: it
    is not known, as of one that was killed.
    """
    found = [str(content.get(key)) for key in ("started", "ended")] if isinstance(content, dict) else []
    return (found[0], found[1]) if found and all(map(_TIME.fullmatch, found)) else None


def failed_step_in(content: object) -> int | None:
    """The last step that a process began which failed later; None: it did not, or the file does not tell, as
    that of one that was killed.
    """
    outcome = content.get("outcome") if isinstance(content, dict) else None
    steps = _count(content, "steps")
    return steps - 1 if steps and outcome not in (None, "running", "ended") else None


def processes_of(path: Path) -> Iterator[tuple[int, object]]:
    """What run.rank{R}.json holds, with R. `path` may also be a part of the run."""
    folder = _run_of(path)
    for rank in sorted(ranks_of_run(folder)):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            with open_to_read(folder / f"run.rank{rank}.json") as file:
                content = json.loads(file.read(_LARGEST_RUN_FILE))
            yield rank, content


def _content_of(path: Path) -> object:
    return next((content for _, content in processes_of(path)), None)


def _count(content: object, key: str) -> int:
    count = content.get(key) if isinstance(content, dict) else 0
    return count if type(count) is int and 0 <= count < 1 << 62 else 0


def offset_of(target: Path, reference: Path, asked: int | None) -> int:
    """The step of the reference at which the target begins: what was asked for, else what the runs say: the
    counts of their optimizers or, where these say nothing, their losses. Paths may also be parts of runs.
    """
    if asked is not None:
        return asked
    counted = first_step_of(target) - first_step_of(reference)
    return counted or begins_at(_run_of(target), _run_of(reference))


def _run_of(path: Path) -> Path:
    return path if is_run(path) else path.parent


def _part_of(path: Path, name: str, words: str) -> Path:
    if not is_run(path):
        return path
    part = path / name
    if not part.exists():
        raise InvalidArgument(f"{path}: the folder of a run without {words}: expected {name} in it")
    return part
