# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What the monitor measures: each quantity, its metrics, what it costs and where the idea is from, out of the
table of the native library (cpp/src/monitor/quantities.cpp).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from msprobe.native import InvalidArgument, core

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Quantity(NamedTuple):
    """One thing that is measured."""

    number: int
    """Its place in the table: the group of the labels of its rows."""
    name: str
    group: str  # the word of the configuration that asks for it; "": only TrainerMon has it
    kind: str  # that of its rows; "number" for one that is no row
    meaning: str
    metrics: tuple[str, ...]
    cost: str
    source: str
    scope: str


@cache
def quantities() -> tuple[Quantity, ...]:
    return tuple(Quantity(number, *row) for number, row in enumerate(core.monitor_quantities()))


def quantity(name: str) -> Quantity:
    return next(one for one in quantities() if one.name == name)


def chosen_metrics(of: Quantity, wanted: Sequence[str]) -> list[str]:
    """Those of `wanted` that the quantity can have; its own without a wish."""
    chosen: list[str] = core.monitor_chosen_metrics(of.number, list(wanted))
    return chosen


def check_metrics(wanted: Sequence[str], where: str) -> None:
    """Raises InvalidArgument for a metric that no quantity has."""
    known = {name for _, name, *_ in core.monitor_metrics()}
    for name in wanted:
        if name not in known:
            from msprobe.config import did_you_mean

            hint = did_you_mean(name, known) or f"expected some of {', '.join(sorted(known))}"
            raise InvalidArgument(f'{where}: "metrics": there is no metric {name!r}: {hint}')


def table() -> Iterator[tuple[str, str, str, str, str, str]]:
    """Every number of a record: key, meaning, formula, unit, cost, source; for the documentation."""
    formulas: dict[tuple[str, str], tuple[str, str]] = {
        (kind, name): (formula, source) for kind, name, formula, _, source in core.monitor_metrics()
    }
    for one in quantities():
        for metric in one.metrics:
            formula, source = formulas.get((one.kind, metric), ("", ""))
            key = f"{one.name}.{metric}" if metric else one.name
            unit = core.monitor_unit(one.number, metric)
            yield key, one.meaning, formula, unit, one.cost, one.source or source
