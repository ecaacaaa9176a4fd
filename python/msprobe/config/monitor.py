# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Section `monitor`: what is recorded of a training at every step, and what its rules do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from msprobe.config.values import Value, Words, switch, texts

if TYPE_CHECKING:
    from msprobe.config.values import Section

Quantity = Literal[
    "training", "gradient", "weight", "moment", "update", "direction", "activation", "activation_gradient",
    "attention", "experts", "matrix",
]  # fmt: skip
Level = Literal["parameter", "layer", "model"]
Sink = Literal["store", "csv", "tensorboard"]
Scope = Literal["whole", "rank"]

QUANTITIES: Words[Quantity] = Words(
    ("training", "gradient", "weight", "moment", "update", "direction", "activation", "activation_gradient",
     "attention", "experts", "matrix")
)  # fmt: skip
_DEFAULT_QUANTITIES: tuple[Quantity, ...] = ("training", "gradient", "weight", "moment")
_LEVELS: Words[Level] = Words(("parameter", "layer", "model"))
_SINKS: Words[Sink] = Words(("store", "csv", "tensorboard"))
_SCOPES: Words[Scope] = Words(("whole", "rank"))

MONITOR_KEYS = (
    "every", "start", "targets", "quantities", "metrics", "levels", "matrices", "matrix_every",
    "attention_queries", "expert_top", "expert_capacity", "eps", "rules", "alarm", "sinks", "scope",
)  # fmt: skip
_ALARM_KEYS = ("command", "webhook", "dump", "dump_task", "cooldown", "most", "most_dumps")
_RULE_KEYS = (
    "rule",
    "name",
    "series",
    "threshold",
    "ratio",
    "slack",
    "falling",
    "warm_up",
    "window",
    "cooldown",
)
_RULE_KINDS = Words(("nonfinite", "limit", "spike", "drift", "turbulence"))


@dataclass(frozen=True)
class RuleConfig:
    """One entry of `rules`. What is None has the default of the monitor."""

    rule: str
    name: str
    series: tuple[str, ...]
    threshold: float = 0.0
    ratio: float = 1.0
    slack: float = 1.0
    falling: bool = False
    warm_up: int = 0
    window: int = 100
    cooldown: int = 100


@dataclass(frozen=True)
class AlarmConfig:
    """What an alarm does beside being written."""

    command: tuple[str, ...] = ()  # a program and its arguments
    webhook: str = ""  # an address that gets the alarm as JSON
    dump: bool = False  # record the next step in full
    dump_task: str = "statistics"
    cooldown: int = 100  # steps between two commands, calls or dumps
    most: int = 1000  # alarms of a run that are written
    most_dumps: int = 3


@dataclass(frozen=True)
class MonitorConfig:
    """Section `monitor`."""

    every: int = 1  # a step in so many is recorded
    start: int | None = None  # number of the first step; None: that of the optimizer's state, or 0
    targets: tuple[str, ...] = ()  # patterns of parameters and modules; empty: all
    quantities: tuple[Quantity, ...] = _DEFAULT_QUANTITIES
    metrics: tuple[str, ...] = ()  # empty: those that each quantity has by default
    levels: tuple[Level, ...] = ("parameter", "layer", "model")
    matrices: tuple[
        str, ...
    ] = ()  # patterns of the parameters whose spectrum is taken; empty: all of two dimensions
    matrix_every: int = 100  # recorded steps
    attention_queries: int = 64  # of each head; 0: all
    expert_top: int | None = None  # experts of a token; None: what the model says, or 1
    expert_capacity: float = 1.25  # of an expert, as a multiple of the mean load
    eps: float = 1e-8  # zeros: |x| < eps
    rules: tuple[RuleConfig, ...] | None = None  # None: the default ones
    alarm: AlarmConfig = field(default_factory=AlarmConfig)
    sinks: tuple[Sink, ...] = ("store",)
    scope: Scope = "whole"  # of the values: the whole tensor, or the part of each process

    @classmethod
    def read(cls, section: Section) -> MonitorConfig:
        section.allow_only(MONITOR_KEYS)
        section = section.given(MONITOR_KEYS)
        get = section.get
        start = get("start", None)
        top = get("expert_top", None)
        return cls(
            every=_integer(get("every", cls.every), 1),
            start=None if start.value is None else _integer(start, 0),
            targets=texts(get("targets", [])),
            quantities=QUANTITIES.several(get("quantities", list(cls.quantities))),
            metrics=texts(get("metrics", [])),
            levels=_LEVELS.several(get("levels", list(cls.levels))),
            matrices=texts(get("matrices", [])),
            matrix_every=_integer(get("matrix_every", cls.matrix_every), 1),
            attention_queries=_integer(get("attention_queries", cls.attention_queries), 0),
            expert_top=None if top.value is None else _integer(top, 1),
            expert_capacity=_number(get("expert_capacity", cls.expert_capacity), above=0),
            eps=_number(get("eps", cls.eps)),
            rules=_rules(get("rules", "default")),
            alarm=_alarm(get("alarm", {})),
            sinks=_SINKS.several(get("sinks", list(cls.sinks))),
            scope=_SCOPES.one(get("scope", cls.scope)),
        )


def _integer(value: Value, least: int) -> int:
    number = value.value
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        value.fail(f"expected an integer of at least {least}, {value.found}")
    return number


def _number(value: Value, above: float | None = None) -> float:
    number = value.value
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < float("inf"):
        value.fail(f"expected a number of 0 or more, {value.found}")
    if above is not None and number <= above:
        value.fail(f"expected a number above {above}, {value.found}")
    return float(number)


def _entries(value: Value, known: tuple[str, ...]) -> dict[str, Value]:
    """The members of an object, which must be `known`."""
    if not isinstance(value.value, dict):
        value.fail(f"expected an object, {value.found}")
    content = cast("dict[str, Any]", value.value)
    for key in content:
        if key not in known:
            Value(value.where, f"{value.key}.{key}", content[key]).fail(
                f"unknown key: expected one of {', '.join(known)}"
            )
    return {key: Value(value.where, f"{value.key}.{key}", entry) for key, entry in content.items()}


def _rules(value: Value) -> tuple[RuleConfig, ...] | None:
    """A list of rules, of which "default" stands for the default ones; "default" alone; or [] for none."""
    if value.value == "default":
        return None
    if not isinstance(value.value, list):
        value.fail(f'expected a list of rules, or "default", {value.found}')
    return tuple(
        _rule(Value(value.where, f"{value.key}[{index}]", entry)) for index, entry in enumerate(value.value)
    )


def _rule(value: Value) -> RuleConfig:
    if value.value == "default":
        return RuleConfig("default", "default", ())
    given = _entries(value, _RULE_KEYS)
    kind = given.get("rule")
    if kind is None:
        value.fail(f'expected a key "rule" with one of {", ".join(_RULE_KINDS.allowed)}, {value.found}')
    word = _RULE_KINDS.one(kind)
    series = given.get("series")
    name = given.get("name")
    if name is not None and (not isinstance(name.value, str) or not name.value):
        name.fail(f"expected a name, {name.found}")
    numbers: dict[str, Any] = {
        key: _number(given[key]) for key in ("threshold", "ratio", "slack") if key in given
    }
    leasts = {"warm_up": 0, "window": 1, "cooldown": 0}
    counts = {key: _integer(given[key], least) for key, least in leasts.items() if key in given}
    if word != "nonfinite" and "threshold" not in numbers:
        value.fail(f'rule {word} needs a "threshold", {value.found}')
    if word in ("spike", "drift") and not numbers.get("ratio", 2.0) > 1:
        given["ratio"].fail(f"expected a number above 1, {given['ratio'].found}")
    if word in ("spike", "drift"):
        numbers.setdefault("ratio", 2.0)
    return RuleConfig(
        rule=word,
        name=word if name is None else str(name.value),
        series=("*",) if series is None else texts(series),
        falling=switch(given["falling"]) if "falling" in given else False,
        **numbers,
        **counts,
    )


def _alarm(value: Value) -> AlarmConfig:
    given = _entries(value, _ALARM_KEYS)
    defaults = AlarmConfig()
    command: tuple[str, ...] = ()
    if "command" in given:
        one = given["command"]
        command = (
            (one.value,)
            if isinstance(one.value, str)
            else texts(one, "expected a program, or a list of words")
        )
    webhook = ""
    if "webhook" in given:
        one = given["webhook"]
        if not isinstance(one.value, str) or not one.value.startswith(("http://", "https://")):
            one.fail(f"expected an address that begins with https:// or http://, {one.found}")
        webhook = one.value
    task = given.get("dump_task")
    return AlarmConfig(
        command=command,
        webhook=webhook,
        dump=switch(given["dump"]) if "dump" in given else defaults.dump,
        dump_task=defaults.dump_task if task is None else Words(("statistics", "tensor")).one(task),
        cooldown=_integer(given["cooldown"], 0) if "cooldown" in given else defaults.cooldown,
        most=_integer(given["most"], 0) if "most" in given else defaults.most,
        most_dumps=_integer(given["most_dumps"], 0) if "most_dumps" in given else defaults.most_dumps,
    )
