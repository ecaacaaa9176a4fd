# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Section `monitor`: what is recorded of a training at every step, and what its rules do. Read, checked and
completed natively: cpp/src/config/monitor_keys.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Quantity = Literal[
    "training", "gradient", "weight", "moment", "update", "direction", "activation", "activation_gradient",
    "attention", "experts", "communication", "matrix",
]  # fmt: skip
Level = Literal["parameter", "layer", "model"]
Sink = Literal["store", "csv", "tensorboard"]
Scope = Literal["whole", "rank"]


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
    quantities: tuple[Quantity, ...] = ("training", "gradient", "weight", "moment")
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


def monitor_config_of(values: Mapping[str, Any]) -> MonitorConfig:
    """The section as the native library has checked it."""
    made_of = _with_tuples(values)
    rules = values["rules"]
    made_of["rules"] = None if rules == "default" else tuple(_rule_of(rule) for rule in rules)
    made_of["alarm"] = AlarmConfig(**_with_tuples(values["alarm"]))
    return MonitorConfig(**made_of)


def _rule_of(rule: Mapping[str, Any] | Literal["default"]) -> RuleConfig:
    return RuleConfig("default", "default", ()) if rule == "default" else RuleConfig(**_with_tuples(rule))


def _with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
