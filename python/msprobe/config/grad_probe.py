# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Section `grad_probe`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from msprobe.config.values import Value, Words, texts

if TYPE_CHECKING:
    from msprobe.config.values import Section

GradLevel = Literal["L0", "L1", "L2"]

GRAD_PROBE_KEYS = ("grad_level", "param_list", "bounds")

_LEVELS: Words[GradLevel] = Words(("L0", "L1", "L2"))


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
        section.allow_only(GRAD_PROBE_KEYS)
        return cls(
            level=_LEVELS.one(section.get("grad_level", cls.level), "grad_level must be one of"),
            param_list=texts(section.get("param_list", []), "param_list must be a list of parameter names"),
            bounds=_bounds(section.get("bounds", [-1, 0, 1])),
        )


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
