# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Section `run_ut` (`acc_check` in newer releases of the existing tool): how recorded operators are
checked.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from msprobe.config.file import read_object
from msprobe.config.online_check import Meeting, read_meeting
from msprobe.config.values import Section, Value, did_you_mean, switch, texts

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS = (
    "white_list", "black_list", "error_data_path", "is_online", "nfs_path", "host", "port", "rank_list",
    "tls_path", "precision",
)  # fmt: skip
_MOST_DECIMALS = 20


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

    @classmethod
    def read(cls, section: Section) -> RunUtConfig:
        for key in section.values:
            if key not in _KEYS:
                hint = did_you_mean(key, _KEYS, closeness=0.7)
                if hint:
                    section.get(key, None).fail(f"unknown key: {hint}")
                section.get(key, None).warn("the unknown key is ignored")
        section = section.given(_KEYS)
        is_online = switch(section.get("is_online", False))
        return cls(
            white_list=texts(section.get("white_list", [])),
            black_list=texts(section.get("black_list", [])),
            error_data_path=_folder(section.get("error_data_path", cls.error_data_path)),
            precision=_decimals(section.get("precision", cls.precision)),
            online=read_meeting(section, "server", "") if is_online else None,
            rank_list=_ranks(section.get("rank_list", [0])),
        )


def load_run_ut_config(path: str | os.PathLike[str]) -> RunUtConfig:
    """The section of a configuration file, whatever its task is. Raises InvalidArgument."""
    where = os.fspath(path)
    content: Mapping[str, object] = read_object(where)
    name = "acc_check" if "run_ut" not in content and "acc_check" in content else "run_ut"
    section = content.get(name, {})
    if not isinstance(section, dict):
        value = Value(where, name, section)
        value.fail(f"expected an object, {value.found}")
    return RunUtConfig.read(Section(where, name, section))


def _folder(value: Value) -> str:
    if not isinstance(value.value, str) or not os.path.isdir(value.value):
        value.fail(f"expected a folder that exists, {value.found}")
    return value.value


def _decimals(value: Value) -> int:
    number = value.value
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MOST_DECIMALS:
        value.fail(f"expected a number of decimals from 0 to {_MOST_DECIMALS}, {value.found}")
    return number


def _ranks(value: Value) -> tuple[int, ...]:
    if not isinstance(value.value, list):
        value.fail(f"rank_list must be a list, {value.found}")
    for rank in cast("list[object]", value.value):
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
            value.fail(f"All elements in rank_list must be integers, found {rank!r}")
    return tuple(cast("list[int]", value.value))
