# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The folder of `msprobe run` (docs/formats/run.md): whatever takes a part of a run takes the run, too."""

from __future__ import annotations

import os
import re
from pathlib import Path

from msprobe.native import InvalidArgument

RUN_FILE = re.compile(r"run\.rank([0-9]{1,9})\.json")

# Folders and files of a run, below its folder.
DUMP = "dump"
GRADIENTS = "grad_probe"
MONITOR = "monitor"
PERTURB = "perturb"
FREE_BENCHMARK = "free_benchmark"
CONFIG_PACK = "config_check.zip"


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is the folder of a run."""
    try:
        return any(RUN_FILE.fullmatch(name) for name in os.listdir(path))
    except OSError:  # a file, or not there: who opens it will say so
        return False


def dump_of(path: Path) -> Path:
    """The dump of a run; any other path as it is. Raises InvalidArgument for a run without one."""
    return _part_of(path, DUMP, "a dump")


def gradients_of(path: Path) -> Path:
    """The gradient record of a run; else as dump_of()."""
    return _part_of(path, GRADIENTS, "gradients")


def pack_of(path: Path) -> Path:
    """The config pack of a run; else as dump_of()."""
    return _part_of(path, CONFIG_PACK, "a config pack")


def _part_of(path: Path, name: str, words: str) -> Path:
    if not is_run(path):
        return path
    part = path / name
    if not part.exists():
        raise InvalidArgument(f"{path}: the folder of a run without {words}: expected {name} in it")
    return part
