# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""config.json -> frozen dataclasses. Every default and every check of a configuration is here.

A new task is one dataclass with a `read(section)` and one row in `_SECTIONS`. The format:
docs/formats/config.md.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

from msprobe.native import InvalidArgument, UnsupportedError, log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

GradLevel = Literal["L0", "L1", "L2"]

_LARGEST_FILE = 1 << 30
_LARGEST_INDEX = 1_000_000
_TASKS = (
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
)
_LEVELS = ("L0", "L1", "L2", "mix", "debug")
_SWITCHES = ("enable_dataloader", "async_dump")
# Keys of every release of the existing tool: a file written for another release is not refused.
_TOP_LEVEL_KEYS = (
    "task",
    "dump_path",
    "rank",
    "step",
    "level",
    *_SWITCHES,
    "dump_enable",
    "extra_info",
    "precision",
    "risk_level",
    "custom_op_namespaces",
    "load",
    *_TASKS,
)


@dataclass(frozen=True)
class Value:
    """A value of the configuration together with where it comes from, for messages."""

    where: str  # the file, or "PrecisionDebugger()"
    key: str  # e.g. "grad_probe.bounds"
    value: object

    def fail(self, problem: str) -> NoReturn:
        raise InvalidArgument(f'{self.where}: "{self.key}": {problem}')

    @property
    def found(self) -> str:
        """The value as a message shows it."""
        text = repr(self.value)
        return f"found {text if len(text) <= 60 else text[:57] + '...'}"


@dataclass(frozen=True)
class Section:
    """The part of the file that belongs to one task."""

    where: str
    name: str
    values: Mapping[str, object]

    def get(self, key: str, default: object) -> Value:
        return Value(self.where, f"{self.name}.{key}", self.values.get(key, default))

    def allow_only(self, keys: Iterable[str]) -> None:
        known = tuple(keys)
        for key in self.values:
            if key not in known:
                expected = did_you_mean(key, known) or f"expected one of {', '.join(known)}"
                Value(self.where, f"{self.name}.{key}", None).fail(f"unknown key: {expected}")


@dataclass(frozen=True)
class Bound:
    """A border between two intervals of a distribution."""

    value: float
    label: str  # the number as Python prints it: "-1", "0.1", "1e+16"


@dataclass(frozen=True)
class GradProbeConfig:
    """Section `grad_probe`."""

    level: GradLevel = "L1"
    param_list: tuple[str, ...] = ()  # empty: all
    bounds: tuple[Bound, ...] = (Bound(-1.0, "-1"), Bound(0.0, "0"), Bound(1.0, "1"))

    @classmethod
    def read(cls, section: Section) -> GradProbeConfig:
        section.allow_only(("grad_level", "param_list", "bounds"))
        return cls(
            level=_grad_level(section.get("grad_level", cls.level)),
            param_list=_names(section.get("param_list", [])),
            bounds=_bounds(section.get("bounds", [-1, 0, 1])),
        )


_SECTIONS: dict[str, Callable[[Section], GradProbeConfig]] = {
    "grad_probe": GradProbeConfig.read,
}


@dataclass(frozen=True)
class Config:
    """A checked configuration."""

    task: str
    dump_path: str
    ranks: tuple[int, ...]  # ascending; empty: all
    steps: tuple[int, ...]  # ascending; empty: all
    level: str
    section: GradProbeConfig


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
        content = _read_object(where)

    given = {"task": task, "dump_path": dump_path, "level": level, "step": step}

    def get(key: str) -> Value:
        argument = given.get(key)
        if argument is not None and argument != "":
            return Value("PrecisionDebugger()", key, argument)
        return Value(where, key, content.get(key))

    chosen = _task(get("task"))
    section = Value(where, chosen, content.get(chosen, {}))
    if not isinstance(section.value, dict):
        section.fail(f"expected an object, {section.found}")
    _check_top_level_keys(where, content, chosen, section.value)
    for switch in _SWITCHES:
        _switch(Value(where, switch, content.get(switch, False)))
    return Config(
        task=chosen,
        dump_path=_dump_path(get("dump_path")),
        ranks=_indices(get("rank")),
        steps=_indices(get("step")),
        level=_level(get("level")),
        section=_SECTIONS[chosen](Section(where, chosen, section.value)),
    )


def did_you_mean(word: str, known: Iterable[str], closeness: float = 0.6) -> str:
    """`did you mean "..."?`, or "" when nothing is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=closeness)
    return f'did you mean "{close[0]}"?' if close else ""


# ------------------------------------------------------------------------------------------------ the file


def _read_object(path: str) -> dict[str, object]:
    """The JSON object in `path`."""

    def fail(problem: str) -> NoReturn:
        raise InvalidArgument(f"{path}: {problem}")

    def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(pairs)
        if len(result) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            fail(f'"{twice}": the key stands twice in one object, expected once')
        return result

    if not path.endswith(".json"):
        fail("expected the name of a configuration file to end in .json")
    text = _read_text(path, fail)
    try:
        content = json.loads(text, object_pairs_hook=without_duplicates)
    except InvalidArgument:
        raise
    except json.JSONDecodeError as error:
        fail(f"line {error.lineno}, column {error.colno}: expected JSON: {error.msg}")
    except RecursionError:
        fail("expected JSON: nested too deeply")
    except ValueError as error:  # a number with thousands of digits
        fail(f"expected JSON: {error}")
    if not isinstance(content, dict):
        fail(f"expected a JSON object, found a {type(content).__name__}")
    return content


def _read_text(path: str, fail: Callable[[str], NoReturn]) -> str:
    if os.path.islink(path):
        fail("expected a file, found a symbolic link")
    try:
        # Not to hang on a named pipe, the file is opened without waiting and looked at before it is read.
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        fail(f"cannot read the configuration file: {reason}")
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            fail("expected a regular file")
        if status.st_size > _LARGEST_FILE:
            fail(f"expected at most 1 GiB, found {status.st_size} bytes")
        try:
            return file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            fail(f"byte {error.start}: expected UTF-8 text")


def _check_top_level_keys(
    where: str, content: Mapping[str, object], task: str, section: Mapping[str, object]
) -> None:
    unknown = [key for key in content if key not in _TOP_LEVEL_KEYS]
    for key in unknown:
        value = Value(where, key, None)
        if task == "grad_probe" and key in ("grad_level", "param_list", "bounds") and key not in section:
            value.fail('expected inside of "grad_probe", found at the top level')
        hint = did_you_mean(key, _TOP_LEVEL_KEYS, closeness=0.7)
        if hint:
            value.fail(f"unknown key: {hint}")
    if unknown:
        log.warning("%s: unknown keys are ignored: %s", where, ", ".join(unknown))


# ------------------------------------------------------------------------------------------------ shared keys


def _one_of(value: Value, allowed: tuple[str, ...], problem: str) -> str:
    if not isinstance(value.value, str) or value.value not in allowed:
        value.fail(f"{problem} {', '.join(allowed)}, {value.found}")
    return value.value


def _task(value: Value) -> str:
    # The default is that of the existing tool.
    given = value.value not in (None, "")
    name = _one_of(value, _TASKS, "expected one of") if given else "statistics"
    if name not in _SECTIONS:
        raise UnsupportedError(
            f'{value.where}: "task": {name}{"" if given else " (the default)"} is not in this version '
            f"of msprobe, expected {' or '.join(_SECTIONS)}"
        )
    return name


def _level(value: Value) -> str:
    return _one_of(value, _LEVELS, "expected one of") if value.value else "L1"


def _switch(value: Value) -> None:
    if not isinstance(value.value, bool):
        value.fail(f"expected true or false, {value.found}")


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


# ------------------------------------------------------------------------------------------------ grad_probe


def _grad_level(value: Value) -> GradLevel:
    return cast("GradLevel", _one_of(value, ("L0", "L1", "L2"), "grad_level must be one of"))


def _names(value: Value) -> tuple[str, ...]:
    if not isinstance(value.value, list):
        value.fail(f"param_list must be a list of parameter names, {value.found}")
    for element in cast("list[object]", value.value):
        if not isinstance(element, str):
            Value(value.where, value.key, element).fail(
                f"expected a list of strings, found {element!r} in it"
            )
    return tuple(cast("list[str]", value.value))


def _bounds(value: Value) -> tuple[Bound, ...]:
    if not isinstance(value.value, list):
        value.fail(f"bounds must be a list of ascending numbers, {value.found}")
    numbers: list[Any] = value.value
    for number in numbers:
        element = Value(value.where, value.key, number)
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            element.fail(f"bounds element is not int or float, {element.found}")
        if not -(2**63) <= number <= 2**63 - 1:  # NaN, too, is not
            element.fail(f"bounds element is out of int64 range, {element.found}")
    for before, after in zip(numbers, numbers[1:]):
        if not float(before) < float(after):  # as the native library holds them
            value.fail(f"bounds list is not ascending, found {after!r} after {before!r}")
    return tuple(Bound(float(number), str(number)) for number in numbers)
