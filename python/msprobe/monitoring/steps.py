# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tells a monitor of the steps of optimizers."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from msprobe.training.optimizer import OptimizerUpdates
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
        self._optimizers = list(optimizers)
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
        if self._optimizers or not _is_of(optimizer, _ids(self._models)):
            return
        self._optimizers = find_optimizers(self._models) or [optimizer]
        self._watch()
        self._leading = optimizer
        self._before(optimizer)

    def _found_after(self, optimizer: Any) -> None:
        if optimizer is self._leading:
            self._leading = None
            self._after(optimizer)


def find_optimizers(models: Sequence[Any]) -> list[Any]:
    """Those of the process that have parameters of the models."""
    from torch.optim import Optimizer

    ids = _ids(models)
    return [one for one in gc.get_objects() if issubclass(type(one), Optimizer) and _is_of(one, ids)]


def _ids(models: Sequence[Any]) -> set[int]:
    return {id(parameter) for model in models for parameter in model.parameters()}


def _is_of(optimizer: Any, parameters: set[int]) -> bool:
    groups = getattr(optimizer, "param_groups", ())
    return any(id(parameter) in parameters for group in groups for parameter in group["params"])
