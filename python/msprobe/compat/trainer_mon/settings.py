# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The JSON file of TrainerMon, with the keys, defaults and errors of mindstudio-probe
(docs/formats/monitor.md).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.compat.trainer_mon.run_folders import time_of
from msprobe.files.atomic_file import write_text
from msprobe.files.regular_file import open_to_read
from msprobe.native import FormatError, InvalidArgument, IoError, log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OPS = ("norm", "min", "max", "mean", "nans", "zeros", "id", "shape", "dtype")
NOT_NUMBERS = ("shape", "dtype")
RULES = ("AnomalyTurbulence", "AnomalyNan")
FORMATS = ("csv", "tensorboard", "api")
NO_END = 100_000_000

_LARGEST_FILE = 16 << 20
_MOST_DIGITS = 20
_MOST_STEPS_OF_FILE = 1_000_000
_CC_KEYS = {"enable": bool, "cc_codeline": list, "cc_pre_hook": bool, "cc_log_only": bool}
_SWITCHES = (
    "print_struct", "ur_distribution", "xy_distribution", "wg_distribution", "param_distribution",
    "mv_distribution", "mg_direction", "all_xy", "forward_only", "backward_only", "stack_info", "squash_name",
    "dynamic_on",
)  # fmt: skip
_KEYS = (
    *_SWITCHES, "targets", "ops", "eps", "ndigits", "format", "step_count_per_record",
    "monitor_mbs_grad", "cc_distribution", "alert", "module_ranks", "start_step", "step_interval",
    "collect_times",
    "append_output", "mg_distribution",
)  # fmt: skip


@dataclass(frozen=True)
class Communication:
    """Section cc_distribution."""

    enable: bool = False
    codeline: tuple[str, ...] = ()
    pre_hook: bool = False
    log_only: bool = False


@dataclass(frozen=True)
class TrainerSettings:
    """A checked file."""

    targets: tuple[str, ...] = ("",)
    ops: tuple[str, ...] = ("norm", "shape", "dtype")
    eps: float = 1e-8
    ndigits: int = 6
    format: str = "csv"
    step_count_per_record: int = 1
    xy_distribution: bool = False
    forward_only: bool = False
    backward_only: bool = False
    all_xy: bool = False
    wg_distribution: bool = False
    monitor_mbs_grad: bool = False
    param_distribution: bool = False
    mv_distribution: bool = False
    ur_distribution: bool = False
    mg_direction: bool = False
    communication: Communication = field(default_factory=Communication)
    rules: tuple[tuple[str, float | None], ...] = ()
    dump_anomalies: bool = False
    print_struct: bool = False
    stack_info: bool = False
    module_ranks: tuple[int, ...] = ()
    start_step: int = 0
    step_interval: int = 1
    collect_times: int = NO_END
    dynamic_on: bool = False
    append_output: tuple[str, ...] = ()
    squash_name: bool = True

    @property
    def numbers(self) -> list[str]:
        """The ops that are numbers."""
        return [op for op in self.ops if op not in NOT_NUMBERS]

    def wants(self, step: int, start: int) -> bool:
        """Whether a step is recorded, counted from `start` on."""
        return step >= start and (step - start) % self.step_interval == 0


def read_content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The object in the file. Raises FormatError and IoError that name it."""
    name = os.fspath(path)
    try:
        with open_to_read(name) as file:
            data = file.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise IoError(f"{name}: cannot be read: {reason}") from error
    if len(data) > _LARGEST_FILE:
        raise FormatError(f"{name}: expected at most 16 MiB of JSON")
    try:
        content = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: expected JSON: {error}") from None
    if not isinstance(content, dict):
        raise FormatError(f"{name}: expected a JSON object, found a {type(content).__name__}")
    return content


def switch_dynamic_off(path: str | os.PathLike[str]) -> None:
    """Sets dynamic_on of the file to false; everything else in it stays."""
    from pathlib import Path

    content = read_content(path)
    content["dynamic_on"] = False
    write_text(Path(path), json.dumps(content, indent=2, ensure_ascii=False))


def read_settings(path: str | os.PathLike[str]) -> TrainerSettings:
    """Raises TypeError and ValueError that name file and key, FormatError, and IoError."""
    return settings_of(read_content(path), os.fspath(path))


def settings_of(content: Mapping[str, Any], where: str) -> TrainerSettings:
    check = _Check(content, where)
    check.unknown_keys()
    switches = {key: check.switch(key, key == "squash_name") for key in _SWITCHES}
    targets = check.targets()
    if not targets:
        if switches["xy_distribution"]:
            switches["all_xy"] = True
        targets = ("",)
    if switches["forward_only"] and switches["backward_only"]:
        log.warning('%s: "forward_only" and "backward_only" are both true: no activation is recorded', where)
    wanted_format = check.format()
    if switches["ur_distribution"] and wanted_format != "tensorboard":
        log.warning('%s: "ur_distribution" needs "format": "tensorboard": it is switched off', where)
        switches["ur_distribution"] = False
    if switches["ur_distribution"] and importlib.util.find_spec("matplotlib") is None:
        log.warning(
            "%s: \"ur_distribution\" needs matplotlib, which pip install 'msprobe[pictures]' installs: it is "
            "switched off",
            where,
        )
        switches["ur_distribution"] = False
    rules, dump = check.alert()
    return TrainerSettings(
        targets=targets,
        ops=check.ops(content.get("ops", [])),
        eps=check.eps(),
        ndigits=check.ndigits(),
        format=wanted_format,
        step_count_per_record=check.step_count_per_record(),
        monitor_mbs_grad=check.switch_or_warning("monitor_mbs_grad"),
        communication=check.communication(),
        rules=rules,
        dump_anomalies=dump,
        module_ranks=check.ranks(),
        start_step=number_or_default(content.get("start_step"), "start_step", 0, 0),
        step_interval=number_or_default(content.get("step_interval"), "step_interval", 1, 1),
        collect_times=number_or_default(content.get("collect_times"), "collect_times", 0, NO_END),
        append_output=check.append_output(),
        **switches,
    )


def number_or_default(value: object, name: str, least: int, default: int) -> int:
    """`value`, or with a warning `default` for what is no integer of at least `least`; silently for None."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        log.warning(
            "%s: expected an integer of at least %d, found %r: %d is used", name, least, value, default
        )
        return default
    return value


def chunks_of(model: Any, kind: type, name: str) -> tuple[Any, ...]:
    """What set_monitor() was given, one or several. Raises InvalidArgument."""
    chunks = tuple(model) if isinstance(model, (list, tuple)) else (model,)
    for chunk in chunks:
        if not isinstance(chunk, kind):
            raise InvalidArgument(
                f"set_monitor: expected a {name} or a list of them, found {type(chunk).__name__}"
            )
    return chunks


def checked_ops(ops: object, where: str = "ops") -> tuple[str, ...]:
    """The known ones, always with shape and dtype. Raises TypeError for what is no list."""
    if not isinstance(ops, (list, tuple)):
        raise TypeError(f"{where}: expected a list of statistics, found {ops!r}")
    known = []
    for op in ops:
        if op in OPS:
            known.append(op)
        else:
            log.warning("%s: there is no statistic %r; expected some of %s", where, op, ", ".join(OPS))
    if not known:
        known.append("norm")
    return tuple(known + [op for op in NOT_NUMBERS if op not in known])


# What mindstudio-probe takes for true or false, whatever it is.
_LENIENT = ("all_xy", "backward_only", "forward_only", "mg_direction", "mv_distribution", "stack_info")


class _Check:
    """The checks of one file."""

    def __init__(self, content: Mapping[str, Any], where: str) -> None:
        self._content = content
        self._where = where

    def _fail(self, key: str, expected: str, kind: type[Exception] = TypeError) -> Exception:
        return kind(f'{self._where}: "{key}": expected {expected}, found {self._content.get(key)!r}')

    def unknown_keys(self) -> None:
        self._warn_of_unknown(self._content, "", _KEYS)

    def _warn_of_unknown(self, found: Mapping[str, Any], place: str, known: Sequence[str]) -> None:
        """place: of the keys in the file: a beginning that ends with a dot, or nothing."""
        import difflib

        for key in found:
            if key not in known:
                close = difflib.get_close_matches(str(key), known, n=1, cutoff=0.7)
                hint = f'did you mean "{close[0]}"?' if close else f"expected some of {', '.join(known)}"
                log.warning('%s: "%s%s" is ignored: there is no such key; %s', self._where, place, key, hint)

    def switch(self, key: str, default: bool) -> bool:
        value = self._content.get(key, default)
        if isinstance(value, bool):
            return value
        if key not in _LENIENT:
            raise self._fail(key, "true or false")
        log.warning(
            '%s: "%s": expected true or false, found %r: %s is used', self._where, key, value,
            json.dumps(bool(value)),
        )  # fmt: skip
        return bool(value)

    def switch_or_warning(self, key: str) -> bool:
        value = self._content.get(key, False)
        if isinstance(value, bool):
            return value
        log.warning('%s: "%s": expected true or false, found %r: false is used', self._where, key, value)
        return False

    def targets(self) -> tuple[str, ...]:
        value = self._content.get("targets", {})
        if not isinstance(value, dict):
            raise self._fail("targets", "an object whose keys are names of modules or parameters")
        for name, entry in value.items():
            if not isinstance(entry, dict):
                place = f'{self._where}: "targets.{name}"'
                raise TypeError(f"{place}: expected an object, which may be empty, found {entry!r}")
        return tuple(value)

    def ops(self, value: object) -> tuple[str, ...]:
        return checked_ops(value, f'{self._where}: "ops"')

    def eps(self) -> float:
        value = self._content.get("eps", 1e-8)
        if not isinstance(value, float) or not 0 <= value < float("inf"):
            raise self._fail("eps", "a number with a decimal point, 0.0 or more, as 1e-8")
        return value

    def ndigits(self) -> int:
        value = self._content.get("ndigits")
        if value in (None, 0, False):
            return 6
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= _MOST_DIGITS:
            raise self._fail("ndigits", f"an integer from 1 to {_MOST_DIGITS}", ValueError)
        return value

    def format(self) -> str:
        value = self._content.get("format", "csv")
        if value in FORMATS:
            return str(value)
        log.warning(
            '%s: "format": expected one of %s, found %r: csv is used', self._where, ", ".join(FORMATS), value
        )
        return "csv"

    def step_count_per_record(self) -> int:
        value = self._content.get("step_count_per_record", 1)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._fail("step_count_per_record", "an integer")
        if not 1 <= value <= _MOST_STEPS_OF_FILE:
            raise self._fail(
                "step_count_per_record", f"an integer from 1 to {_MOST_STEPS_OF_FILE}", ValueError
            )
        return value

    def ranks(self) -> tuple[int, ...]:
        value = self._content.get("module_ranks", [])
        if not isinstance(value, list) or any(isinstance(r, bool) or not isinstance(r, int) for r in value):
            raise self._fail("module_ranks", "a list of integers")
        return tuple(value)

    def communication(self) -> Communication:
        value = self._content.get("cc_distribution", {})
        if not isinstance(value, dict):
            raise self._fail("cc_distribution", f"an object with keys out of {', '.join(_CC_KEYS)}")
        for key, entry in value.items():
            if key not in _CC_KEYS:
                raise TypeError(
                    f'{self._where}: "cc_distribution.{key}": there is no such key, expected one of '
                    f"{', '.join(_CC_KEYS)}"
                )
            if not isinstance(entry, _CC_KEYS[key]):
                expected = "true or false" if _CC_KEYS[key] is bool else "a list of regular expressions"
                raise TypeError(
                    f'{self._where}: "cc_distribution.{key}": expected {expected}, found {entry!r}'
                )
        for line in value.get("cc_codeline", []):
            try:
                re.compile(str(line))
            except re.error as error:
                raise ValueError(
                    f'{self._where}: "cc_distribution.cc_codeline": expected regular expressions, found '
                    f"{line!r}: {error}"
                ) from None
        return Communication(
            enable=value.get("enable", False),
            codeline=tuple(str(line) for line in value.get("cc_codeline", [])),
            pre_hook=value.get("cc_pre_hook", False),
            log_only=value.get("cc_log_only", False),
        )

    def alert(self) -> tuple[tuple[tuple[str, float | None], ...], bool]:
        value = self._content.get("alert", {})
        if not isinstance(value, dict):
            raise self._fail("alert", 'an object with "rules" and "dump"')
        self._warn_of_unknown(value, "alert.", ("rules", "dump"))
        dump = value.get("dump", False)
        if not isinstance(dump, bool):
            raise TypeError(f'{self._where}: "alert.dump": expected true or false, found {dump!r}')
        rules = value.get("rules", [])
        if not isinstance(rules, list):
            raise TypeError(f'{self._where}: "alert.rules": expected a list, found {rules!r}')
        found = [self._rule(index, rule) for index, rule in enumerate(rules)]
        return tuple(rule for rule in found if rule is not None), dump

    def _rule(self, index: int, rule: object) -> tuple[str, float | None] | None:
        """None: it is left out, as in mindstudio-probe."""
        place = f'{self._where}: "alert.rules[{index}]'
        if not isinstance(rule, dict):
            raise TypeError(f'{place}": expected an object with "rule_name" and "args", found {rule!r}')
        name = rule.get("rule_name")
        if name not in RULES:
            raise TypeError(f'{place}.rule_name": expected one of {", ".join(RULES)}, found {name!r}')
        self._warn_of_unknown(rule, f"alert.rules[{index}].", ("rule_name", "args"))
        arguments = rule.get("args") or {}
        if not isinstance(arguments, dict):
            raise TypeError(f'{place}.args": expected an object with "threshold", found {arguments!r}')
        self._warn_of_unknown(arguments, f"alert.rules[{index}].args.", ("threshold",))
        threshold = arguments.get("threshold")
        needed = name == "AnomalyTurbulence"
        if threshold is None and not needed:
            return name, None
        if threshold is None:
            log.warning('%s": expected a threshold in args: the rule is left out', place)
            return None
        is_number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
        number = float(threshold) if is_number and threshold is not None else -1.0
        if not number >= 0:
            raise TypeError(f'{place}.args.threshold": expected a number of 0 or more, found {threshold!r}')
        return name, number

    def append_output(self) -> tuple[str, ...]:
        value = self._content.get("append_output", [])
        is_list = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
        if not is_list or len(value) not in (0, 2):
            log.warning(
                '%s: "append_output": expected two times, as "Dec03_21-34-40", found %r: it is ignored',
                self._where,
                value,
            )
            return ()
        times = [time_of(entry, f'{self._where}: "append_output"') for entry in value]
        if times != sorted(times):
            raise self._fail("append_output", "the earlier time first", InvalidArgument)
        return tuple(value)
