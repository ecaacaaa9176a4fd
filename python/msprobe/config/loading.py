# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The top level of a configuration, and which task reads which section."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union, cast

from msprobe.config.dump import DUMP_KEYS, DumpConfig
from msprobe.config.file import read_object
from msprobe.config.free_benchmark import FREE_BENCHMARK_KEYS, FreeBenchmarkConfig
from msprobe.config.grad_probe import GRAD_PROBE_KEYS, GradProbeConfig
from msprobe.config.monitor import MONITOR_KEYS, MonitorConfig
from msprobe.config.values import Section, TopLevel, Value, Words, did_you_mean, switch
from msprobe.native import UnsupportedError, log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from msprobe.config.values import Level

_LARGEST_INDEX = 1_000_000
_TASKS = Words(
    (
        "tensor",
        "statistics",
        "overflow_check",
        "free_benchmark",
        "run_ut",
        "grad_probe",
        "structure",
        "acc_check",
        "diff_check",
        "nan_check",
        "monitor",
    )
)
_LEVELS: Words[Level] = Words(("L0", "L1", "L2", "mix", "debug"))
# Keys of every release of the existing tool: a file written for another release is not refused.
_TOP_LEVEL_KEYS = (
    "task",
    "dump_path",
    "rank",
    "step",
    "level",
    "enable_dataloader",
    "async_dump",
    "dump_enable",
    "extra_info",
    "precision",
    "risk_level",
    "custom_op_namespaces",
    "load",
    *_TASKS.allowed,
)


TaskConfig = Union[GradProbeConfig, DumpConfig, FreeBenchmarkConfig, MonitorConfig]

# Task -> what reads its section, and the keys that belong into it.
_SECTIONS: dict[str, tuple[Callable[[Section], TaskConfig], tuple[str, ...]]] = {
    "grad_probe": (GradProbeConfig.read, GRAD_PROBE_KEYS),
    "statistics": (DumpConfig.read, DUMP_KEYS),
    "tensor": (DumpConfig.read, DUMP_KEYS),
    "structure": (DumpConfig.read, DUMP_KEYS),
    "overflow_check": (DumpConfig.read, DUMP_KEYS),
    "free_benchmark": (FreeBenchmarkConfig.read, FREE_BENCHMARK_KEYS),
    "monitor": (MonitorConfig.read, MONITOR_KEYS),
}


@dataclass(frozen=True)
class Config:
    """A checked configuration."""

    task: str
    dump_path: str
    ranks: tuple[int, ...]  # ascending; empty: all
    steps: tuple[int, ...]  # ascending; empty: all
    level: Level
    enable_dataloader: bool
    async_dump: bool
    section: TaskConfig


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
    where = "PrecisionDebugger()"
    content: Mapping[str, object] = {}
    if config_path is not None and config_path != "":
        if not isinstance(config_path, (str, os.PathLike)):
            Value(where, "config_path", config_path).fail(f"expected a path, found {config_path!r}")
        where = os.fspath(config_path)
        content = read_object(where)

    given = {"task": task, "dump_path": dump_path, "level": level, "step": step}

    def get(key: str) -> Value:
        argument = given.get(key)
        if argument is not None and argument != "":
            return Value("PrecisionDebugger()", key, argument)
        return Value(where, key, content.get(key))

    def get_switch(key: str, default: bool) -> bool:
        return switch(Value(where, key, content.get(key, default)))

    chosen = _task(get("task"))
    section = Value(where, chosen, content.get(chosen, {}))
    if not isinstance(section.value, dict):
        section.fail(f"expected an object, {section.found}")
    _check_top_level_keys(where, content, chosen, section.value)
    top = TopLevel(
        level=_level(get("level"), chosen),
        async_dump=get_switch("async_dump", False),
        extra_info=get_switch("extra_info", True),
    )
    read_section, _ = _SECTIONS[chosen]
    return Config(
        task=chosen,
        dump_path=_dump_path(get("dump_path")),
        ranks=_indices(get("rank")),
        steps=_indices(get("step")),
        level=top.level,
        enable_dataloader=get_switch("enable_dataloader", False),
        async_dump=top.async_dump,
        section=read_section(Section(where, chosen, section.value, top)),
    )


def _check_top_level_keys(
    where: str, content: Mapping[str, object], task: str, section: Mapping[str, object]
) -> None:
    unknown = [key for key in content if key not in _TOP_LEVEL_KEYS]
    for key in unknown:
        value = Value(where, key, None)
        if key in _SECTIONS[task][1] and key not in section:
            value.fail(f'expected inside of "{task}", found at the top level')
        hint = did_you_mean(key, _TOP_LEVEL_KEYS, closeness=0.7)
        if hint:
            value.fail(f"unknown key: {hint}")
    if unknown:
        log.warning("%s: unknown keys are ignored: %s", where, ", ".join(unknown))


def _task(value: Value) -> str:
    # The default is that of the existing tool.
    name = _TASKS.one(value) if value.value not in (None, "") else "statistics"
    if name not in _SECTIONS:
        raise UnsupportedError(
            f'{value.where}: "task": {name} is not in this version of msprobe, expected one of '
            f"{', '.join(_SECTIONS)}"
        )
    return name


def _level(value: Value, task: str) -> Level:
    """The level that the task works with."""
    level = _LEVELS.one(value) if value.value else None
    if task == "structure" and level not in ("L0", "mix"):
        if level is not None:
            value.warn(f"task structure needs level L0 or mix, found {level}: mix is used")
        return "mix"
    if task == "free_benchmark":
        if level not in (None, "L1"):
            value.warn(f"task free_benchmark works at level L1, found {level}: L1 is used")
        return "L1"
    if level == "L2" and task not in ("tensor", "grad_probe", "monitor"):
        value.fail(f"expected task tensor at level L2, found task {task}")
    return level or "L1"


def _dump_path(value: Value) -> str:
    if value.value is None or value.value == "":
        value.fail("The dump_path not found. Expected in the file or as an argument of PrecisionDebugger")
    if not isinstance(value.value, (str, os.PathLike)):
        value.fail(f"expected a path, {value.found}")
    path = os.fspath(value.value)
    if not isinstance(path, str) or "\0" in path:
        value.fail(f"expected a path, {value.found}")
    if os.path.islink(path):
        value.fail(f"expected a directory, {path} is a symbolic link")
    if os.path.exists(path) and not os.path.isdir(path):
        value.fail(f"expected a directory, {path} is a file")
    return path


_RANGE = re.compile(r"\s*([0-9]+)\s*-\s*([0-9]+)\s*")


def _indices(value: Value) -> tuple[int, ...]:
    """A list of numbers and "a-b" ranges, expanded: each once, ascending."""
    if value.value is None:
        return ()
    if not isinstance(value.value, list):
        value.fail(f'expected a list of integers and ranges "a-b", {value.found}')
    if len(value.value) > _LARGEST_INDEX:
        value.fail(f"expected a list of at most {_LARGEST_INDEX} elements, found {len(value.value)}")
    result: set[int] = set()
    for element in cast("list[object]", value.value):
        first, last = _range(Value(value.where, value.key, element))
        result.update(range(first, last + 1))
    return tuple(sorted(result))


def _range(element: Value) -> tuple[int, int]:
    raw = element.value
    if isinstance(raw, int) and not isinstance(raw, bool):
        first = last = raw
    else:
        match = _RANGE.fullmatch(raw) if isinstance(raw, str) and len(raw) < 100 else None
        if match is None:
            element.fail(f'expected an integer or a range "a-b" in the list, {element.found}')
        first, last = int(match[1]), int(match[2])
        if first > last:
            element.fail(f"expected a range from the smaller to the larger number, {element.found}")
    if first < 0 or last > _LARGEST_INDEX:
        element.fail(f"expected numbers from 0 to {_LARGEST_INDEX}, {element.found}")
    return first, last
