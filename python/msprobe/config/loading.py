# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the native library makes of a configuration, with the types that Python code uses."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Union

from msprobe.config.monitor import MonitorConfig, monitor_config_of
from msprobe.config.online_check import Meeting, meeting_of
from msprobe.native import InvalidArgument, core

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class DumpConfig:
    """Sections `statistics`, `tensor`, `structure` and `overflow_check`. What a task does not use has its
    default.
    """

    scope: tuple[str, ...]  # names of the first and the last record; empty: no limits
    list: tuple[str, ...]
    tensor_list: tuple[str, ...]
    data_mode: tuple[str, ...]  # out of forward, backward, input, output
    summary_mode: str
    sketch: bool
    tensor_format: str
    overflow_nums: int
    api_set: str
    json: str
    parameters: bool
    diagnosis: tuple[str, ...]
    stacks: bool
    online: Meeting | None = None  # where a checker takes the steps in place of files; None: files


@dataclass(frozen=True)
class GradProbeConfig:
    """Section `grad_probe`."""

    grad_level: str
    param_list: tuple[str, ...]
    bounds: tuple[float, ...]
    layout: Literal["auto", "npy", "packed"]


@dataclass(frozen=True)
class FreeBenchmarkConfig:
    """Section `free_benchmark`."""

    scope: tuple[str, ...]  # the full names of calls; empty: all
    list: tuple[str, ...]  # a call is made again when its name holds one of these; empty: all
    pert_mode: str
    handler_type: str
    fuzz_stage: str
    if_preheat: bool
    preheat_step: int
    max_sample: int


SectionConfig = Union[DumpConfig, GradProbeConfig, FreeBenchmarkConfig, MonitorConfig, SimpleNamespace]

# The class of a section; a section of another task is a SimpleNamespace.
_CLASSES: dict[str, Any] = {
    "grad_probe": GradProbeConfig,
    "free_benchmark": FreeBenchmarkConfig,
    **dict.fromkeys(("statistics", "tensor", "structure", "overflow_check"), DumpConfig),
}


@dataclass(frozen=True)
class Config:
    """A checked configuration."""

    task: str
    dump_path: str
    ranks: tuple[int, ...]  # ascending; empty: all
    steps: tuple[int, ...]  # ascending; empty: all
    level: str
    enable_dataloader: bool
    async_dump: bool
    section: SectionConfig
    native: core.Config = field(compare=False, repr=False)  # what native code is given


def load_config(
    config_path: str | os.PathLike[str] | None = None,
    *,
    task: str | None = None,
    dump_path: str | os.PathLike[str] | None = None,
    level: str | None = None,
    step: list[int | str] | None = None,
) -> Config:
    """Reads and checks a configuration. What is given here wins over the file; without a file the defaults
    hold.

    Raises InvalidArgument for anything wrong, and UnsupportedError for a task that this version does not
    have.
    """
    loaded = core.load_config(_path(config_path), task, dump_path, level, step)
    return Config(
        task=loaded.task,
        dump_path=loaded.dump_path,
        ranks=loaded.ranks,
        steps=loaded.steps,
        level=loaded.level,
        enable_dataloader=loaded.enable_dataloader,
        async_dump=loaded.async_dump,
        section=_section(loaded.task, loaded.section),
        native=loaded,
    )


def load_section(path: str | os.PathLike[str], task: str) -> SectionConfig:
    """The section of one task alone: what the top level says does not matter. Raises as load_config()."""
    return _section(task, core.load_config_section(_path(path), task))


def load_own_config(path: str | os.PathLike[str], task: str) -> SectionConfig:
    """A file that has the keys of a task at its top. Raises as load_config()."""
    return _section(task, core.load_own_config(_path(path), task))


def check_keys(place: str, task: str, keys: Mapping[str, Any]) -> SectionConfig:
    """The keys of a section that a program gives. `place`: where, for messages. Raises as load_config()."""
    return _section(task, core.check_config_section(place, task, dict(keys)))


def keys_of(task: str) -> tuple[str, ...]:
    """The keys that the section of a task has."""
    return tuple(row["name"] for row in core.config_keys() if task in row["tasks"])


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says, unchecked. Raises InvalidArgument, also as a RuntimeError for what is no JSON."""
    return core.read_config_file(_path(path))


def words_of(name: str) -> tuple[str, ...]:
    """The words that a key of a section allows."""
    return tuple(word for row in core.config_keys() if row["name"] == name for word, _ in row["words"])


def did_you_mean(word: str, known: Iterable[str], share: float = 0.3) -> str:
    """`did you mean "..."?`, or "" when nothing is close. `share`: of the letters may be wrong."""
    closest = core.closest_word(word, list(known), share)
    return f'did you mean "{closest}"?' if closest else ""


def _path(path: object) -> str:
    if path is None:
        return ""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgument(f'PrecisionDebugger(): "config_path": expected a path, found {path!r}')
    text = os.fspath(path)
    if "\0" in text:
        raise InvalidArgument(f"{text!r}: cannot read the configuration file: the name has a zero byte")
    return text


def _section(task: str, values: dict[str, Any]) -> SectionConfig:
    if task == "monitor":
        return monitor_config_of(values)
    made_of = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    view = _CLASSES.get(task)
    if view is None:
        return SimpleNamespace(**made_of)
    names = [one.name for one in fields(view)]
    defaults = _defaults(tuple(of for of, its_view in _CLASSES.items() if its_view is view))
    section: SectionConfig = view(
        **{name: made_of.get(name, defaults[name]) for name in names if name != "online"}
    )
    if isinstance(section, DumpConfig) and values.get("online_run_ut"):
        return replace(section, online=meeting_of(values))
    return section


def _defaults(tasks: tuple[str, ...]) -> dict[str, Any]:
    rows = [row for row in core.config_keys() if set(tasks).intersection(row["tasks"])]
    defaults = {row["name"]: row["default"] for row in rows}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in defaults.items()}
