# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Sections `statistics`, `tensor`, `structure` and `overflow_check`: what a data dump records.

The four tasks share their keys; a task that does not use a key leaves the field at its default. In these
sections null means that the key is not given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from msprobe.config.values import Words, did_you_mean, switch, texts
from msprobe.native import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msprobe.config.values import Section, Value

DumpTask = Literal["statistics", "tensor", "structure", "overflow_check"]
SummaryMode = Literal["statistics", "md5"]
TensorFormat = Literal["pt", "npy"]
CheckMode = Literal["all", "aicore", "atomic"]
ApiSet = Literal["default", "all"]
Json = Literal["at_stop", "deferred"]
Diagnosis = Literal["inputs", "parameters", "gradients", "optimizer", "rng", "modules", "determinism"]
_Direction = Literal["forward", "backward", "input", "output"]

_SUMMARY_MODES: Words[SummaryMode] = Words(("statistics", "md5"))
_TENSOR_FORMATS: Words[TensorFormat] = Words(("pt", "npy"))
_FILE_FORMATS = Words(("npy", "bin"))
_CHECK_MODES: Words[CheckMode] = Words(("all", "aicore", "atomic"))
_API_SETS: Words[ApiSet] = Words(("default", "all"))
_JSONS: Words[Json] = Words(("at_stop", "deferred"))
_DIAGNOSES: Words[Diagnosis] = Words(
    ("inputs", "parameters", "gradients", "optimizer", "rng", "modules", "determinism")
)
_DIRECTIONS: Words[_Direction] = Words(("forward", "backward", "input", "output"))

# The keys that each task uses.
_FILTERS = ("scope", "list", "data_mode")
_EVERY_TASK = ("api_set", "json", "diagnosis", "stacks")
_ONLINE_CHECK = ("online_run_ut", "nfs_path", "host", "port", "tls_path", "online_run_ut_recompute")
_KEYS: dict[DumpTask, tuple[str, ...]] = {
    "statistics": (
        *_FILTERS, "tensor_list", "summary_mode", "tensor_format", "parameters", *_EVERY_TASK,
    ),
    "tensor": (
        *_FILTERS, "summary_mode", "file_format", "tensor_format", "parameters", *_EVERY_TASK, *_ONLINE_CHECK,
    ),
    "structure": _EVERY_TASK,
    "overflow_check": (
        *_FILTERS, "overflow_nums", "check_mode", "tensor_format", "parameters", *_EVERY_TASK,
    ),
}  # fmt: skip
DUMP_KEYS = tuple(dict.fromkeys(key for keys in _KEYS.values() for key in keys))
# Of other frameworks; the existing tool's guide shows them in the section of task statistics.
_WITHOUT_MEANING = ("device", "precision")

_MODULE = "Module."


@dataclass(frozen=True)
class DataMode:
    """Which parts of a call are recorded."""

    forward: bool = True  # also keyword arguments, and parameters of modules
    backward: bool = True
    input: bool = True
    output: bool = True


@dataclass(frozen=True)
class DumpConfig:
    """The section of one of the four tasks, checked against the level."""

    task: DumpTask
    scope: tuple[str, str] | None = None  # names of the first and the last record; None: no limits
    list: tuple[str, ...] = ()  # a record is kept when its name holds one of these; empty: all
    tensor_list: tuple[str, ...] = ()  # records whose name holds one of these get tensor files, too
    data_mode: DataMode = DataMode()
    summary_mode: SummaryMode = "statistics"
    tensor_format: TensorFormat = "pt"  # of tensor files
    overflow_nums: int = 1  # records with an overflow, after which the collection ends; -1: no limit
    check_mode: CheckMode = "all"  # has no effect in torch
    api_set: ApiSet = "default"
    json: Json = "at_stop"
    parameters: bool = False  # record the parameters of modules and APIs (levels L0, L1, mix)
    diagnosis: tuple[Diagnosis, ...] = ()
    stacks: bool = True  # collect call stacks

    @classmethod
    def read(cls, section: Section) -> DumpConfig:
        task = cast("DumpTask", section.name)
        _check_keys(section, _KEYS[task])
        section = section.given(_KEYS[task])
        get = section.get
        # Changes nothing, as in the existing tool: tensor_format is the key that chooses.
        _FILE_FORMATS.one(get("file_format", "npy"), "file_format is invalid, expected one of")
        _refuse_online_check(get("online_run_ut", False))
        level_rules = _LevelRules(section)
        return cls(
            task=task,
            scope=level_rules.scope(get("scope", [])),
            list=level_rules.list(get("list", [])),
            tensor_list=level_rules.not_at_debug(get("tensor_list", [])),
            data_mode=_data_mode(get("data_mode", ["all"])),
            summary_mode=_SUMMARY_MODES.one(get("summary_mode", cls.summary_mode)),
            tensor_format=_TENSOR_FORMATS.one(get("tensor_format", cls.tensor_format)),
            overflow_nums=_overflow_nums(get("overflow_nums", cls.overflow_nums)),
            check_mode=_CHECK_MODES.one(
                get("check_mode", cls.check_mode), "check_mode is invalid, expected one of"
            ),
            api_set=_API_SETS.one(get("api_set", cls.api_set)),
            json=_JSONS.one(get("json", cls.json)),
            parameters=switch(get("parameters", cls.parameters)),
            diagnosis=_DIAGNOSES.several(get("diagnosis", [])),
            stacks=switch(get("stacks", section.top.extra_info)),
        )


def _check_keys(section: Section, used: Iterable[str]) -> None:
    """A mistyped key is an error; a key that changes nothing gets a warning, unless it asks for nothing."""
    for key, given in section.values.items():
        if key in used or key in _WITHOUT_MEANING:
            continue
        value = section.get(key, None)
        if key in DUMP_KEYS:
            if given and given != ["all"]:
                value.warn(f"task {section.name} does not use this key")
            continue
        hint = did_you_mean(key, used, closeness=0.7)
        if hint:
            value.fail(f"unknown key: {hint}")
        value.warn("the unknown key is ignored")


@dataclass(frozen=True)
class _LevelRules:
    """The filters of records, which each level allows in its own form."""

    section: Section

    def scope(self, value: Value) -> tuple[str, str] | None:
        names = texts(value)
        if not names:
            return None
        if len(names) != 2:
            value.fail(f"expected the names of the first and the last record, {value.found}")
        level = self.section.top.level
        if level == "L2":
            value.fail(f"expected no scope at level L2, {value.found}")
        for name in names:
            is_module = name.startswith(_MODULE)
            if level == "L0" and not is_module:
                value.fail(f'expected names that begin with "{_MODULE}" at level L0, found {name!r}')
            if level == "L1" and is_module:
                value.fail(f"expected names of APIs at level L1, not of modules, found {name!r}")
        return (names[0], names[1]) if self.not_at_debug(value) else None

    def list(self, value: Value) -> tuple[str, ...]:
        names = texts(value)
        top = self.section.top
        if top.level == "L2" and len(names) != 1:
            value.fail(f"expected exactly one name at level L2, {value.found}")
        if top.async_dump and self.section.name == "tensor" and top.level != "debug" and not names:
            value.fail(f'expected at least one name with "async_dump" and task tensor, {value.found}')
        return self.not_at_debug(value)

    def not_at_debug(self, value: Value) -> tuple[str, ...]:
        names = texts(value)
        if names and self.section.top.level == "debug":
            value.warn("level debug does not use this key")
            return ()
        return names


def _data_mode(value: Value) -> DataMode:
    """Without a direction both directions are meant, and without a side both sides."""
    words = _DIRECTIONS.several(value)
    any_direction = not {"forward", "backward"}.intersection(words)
    any_side = not {"input", "output"}.intersection(words)
    return DataMode(
        forward=any_direction or "forward" in words,
        backward=any_direction or "backward" in words,
        input=any_side or "input" in words,
        output=any_side or "output" in words,
    )


def _overflow_nums(value: Value) -> int:
    number = value.value
    if isinstance(number, bool) or not isinstance(number, int):
        value.fail(f"overflow_num is invalid, expected an integer, {value.found}")
    if number != -1 and number <= 0:
        value.fail(f"overflow_nums should be -1 or positive integer, {value.found}")
    return number


def _refuse_online_check(value: Value) -> None:
    """The keys beside this one mean nothing while the check is off."""
    if switch(value):
        raise UnsupportedError(
            f'{value.where}: "{value.key}": the online accuracy check is not in this version of msprobe, '
            "expected false"
        )
