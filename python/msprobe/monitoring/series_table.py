# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The series of a run: each is known to the store, the rules and the plan under one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.monitoring.layers import layer_of
from msprobe.monitoring.quantities import chosen_metrics, quantity, unit_of
from msprobe.native import core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe._core import MonitorFrame, MonitorNumbers, MonitorSeries
    from msprobe.config import MonitorConfig


class SeriesTable:
    """Makes series, and turns the rows of a frame into their numbers.

    added: told of each new series, in the order of their numbers, which begin at 0.
    """

    def __init__(self, settings: MonitorConfig, added: Callable[[MonitorSeries], int]) -> None:
        self._settings = settings
        self._added = added
        self._numbers: dict[str, int] = {}
        self._plan: Any = core.MonitorPlan()
        self._members: dict[tuple[str, str, str], list[int]] = {}  # of groups, by quantity, scope and name
        self._changed = False
        self._keys: dict[int, str] = {}

    def number_of(
        self, of: str, metric: str = "", name: str = "", scope: str = "model", layer: int = -1
    ) -> int:
        """The number of a series, made where it is new."""
        series = core.MonitorSeries(of, metric, name, scope, layer, unit_of(of, metric))
        known = self._numbers.get(series.key)
        if known is None:
            known = self._numbers[series.key] = self._added(series)
            self._keys[known] = series.key
        return known

    def know(self, series: MonitorSeries, number: int) -> None:
        """A series that has its number already."""
        self._numbers[series.key] = number
        self._keys[number] = series.key

    @property
    def keys(self) -> dict[int, str]:
        """Of the series, by their numbers."""
        return self._keys

    def add_label(self, label: int, of: str, name: str) -> None:
        """A row of `of` that is about a parameter or a module."""
        scope = quantity(of).scope
        place = layer_of(name)
        number = place[1] if place is not None else -1
        if scope == "module" or "parameter" in self._settings.levels:
            for metric in self._metrics(of):
                self._plan.add(
                    label, quantity(of).kind, metric, self.number_of(of, metric, name, scope, number)
                )
        if scope == "module":
            return
        if place is not None:
            self._members.setdefault((of, "layer", place[0]), []).append(label)
        self._members.setdefault((of, "model", ""), []).append(label)
        self._changed = True

    def evaluate(self, frame: MonitorFrame, numbers: MonitorNumbers) -> None:
        if self._changed:
            self._add_groups()
        self._plan.evaluate(frame, numbers)

    def _add_groups(self) -> None:
        """Labels come at the beginning: once they have, what they make together is decided."""
        self._changed = False
        members, self._members = self._members, {}
        for (of, scope, name), labels in members.items():
            if scope not in self._settings.levels:
                continue
            layer = int(name.rpartition(".")[2]) if scope == "layer" else -1
            for metric in self._metrics(of):
                self._plan.add_group(
                    labels, quantity(of).kind, metric, self.number_of(of, metric, name, scope, layer)
                )

    def _metrics(self, of: str) -> Sequence[str]:
        return chosen_metrics(quantity(of), self._settings.metrics)
