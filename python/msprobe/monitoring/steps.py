# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tells a monitor of the steps of optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.training.model_parts import parameters
from msprobe.training.optimizer import OptimizerUpdates, has_any, innermost, optimizers_of
from msprobe.training.optimizer_step import OptimizerStep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.monitoring.monitor import Monitor


class OptimizerSteps:
    """A step ends when each of the optimizers has stepped, or when one of them steps again: those of a GAN
    take turns.

    optimizers: empty: those of the process that have parameters of the models, found at the first step of
        one.
    """

    def __init__(self, monitor: Monitor, optimizers: Sequence[Any], models: Sequence[Any]) -> None:
        self._monitor = monitor
        self._models = list(models)
        self._watches: list[OptimizerStep] = []
        self._finding: OptimizerUpdates | None = None
        self._optimizers = list({id(one): one for one in map(innermost, optimizers)}.values())
        self._leading: Any = None

    def install(self) -> None:
        if self._optimizers:
            self._watch()
        else:
            self._finding = OptimizerUpdates(lambda optimizer, *_: self._found(optimizer), self._found_after)
            self._finding.install()

    def remove(self) -> None:
        for watch in self._watches:
            watch.remove()
        self._watches = []
        if self._finding is not None:
            self._finding.remove()
            self._finding = None

    def _watch(self) -> None:
        for optimizer in self._optimizers:
            before, after = self._calls_of(optimizer)
            watch = OptimizerStep(optimizer, before, after)
            watch.install()
            self._watches.append(watch)

    def _calls_of(self, optimizer: Any) -> tuple[Any, Any]:
        return lambda: self._before(optimizer), lambda: self._after(optimizer)

    def _before(self, optimizer: Any) -> None:
        if id(optimizer) in self._monitor.stepped:
            self._monitor.end_step()
        self._monitor.before_update(optimizer)

    def _after(self, optimizer: Any) -> None:
        self._monitor.after_update(optimizer)
        if len(self._monitor.stepped) >= len(self._optimizers):
            self._monitor.end_step()

    # ---- optimizers that nobody named

    def _found(self, optimizer: Any) -> None:
        """The first step of one. Its method is watched from the next step on; this one is led along by
        torch's hooks.
        """
        held = {id(parameter) for model in self._models for parameter in parameters(model)}
        if self._optimizers or not has_any(optimizer, held):
            return
        self._optimizers = optimizers_of(self._models) or [optimizer]
        self._watch()
        self._leading = optimizer
        self._before(optimizer)

    def _found_after(self, optimizer: Any) -> None:
        if optimizer is self._leading:
            self._leading = None
            self._after(optimizer)
