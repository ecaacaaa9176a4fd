# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Section `run_ut` (`acc_check` in newer releases of mindstudio-probe): how recorded operators are checked.
Read, checked and completed natively: cpp/src/config/tables.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.config.loading import read_file
from msprobe.config.online_check import Meeting, meeting_of
from msprobe.native import core

if TYPE_CHECKING:
    import os


@dataclass(frozen=True)
class RunUtConfig:
    white_list: tuple[str, ...] = ()
    """Only these functions; empty: all."""
    black_list: tuple[str, ...] = ()
    """Not these, whatever `white_list` says."""
    error_data_path: str = "./"
    """Folder for the tensors of calls that do not pass."""
    precision: int = 14
    """Decimals in the files."""
    online: Meeting | None = None
    """Where trainings are waited for; None: dumps are checked."""
    rank_list: tuple[int, ...] = (0,)
    """Of the trainings that are checked."""
    accept_pickle: bool = False
    """Trainings with mindstudio-probe may send, too."""


def load_run_ut_config(path: str | os.PathLike[str]) -> RunUtConfig:
    """The section of a configuration file, whatever its task is. Raises InvalidArgument."""
    content = read_file(path)
    name = "acc_check" if "run_ut" not in content and "acc_check" in content else "run_ut"
    section = core.load_config_section(path, name)
    return RunUtConfig(
        white_list=tuple(section["white_list"]),
        black_list=tuple(section["black_list"]),
        error_data_path=section["error_data_path"],
        precision=section["precision"],
        online=meeting_of(section) if section["is_online"] else None,
        rank_list=tuple(section["rank_list"]),
        accept_pickle=section["accept_pickle"],
    )
