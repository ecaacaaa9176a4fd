# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a step of a training is given, for recorders that digest, keep or replace it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.experiment import updates
from msprobe.native import log
from msprobe.recording.recorder import QuietRecorder
from msprobe.training.measurement import tensors_in
from msprobe.training.model_parts import named_modules, plain_name

if TYPE_CHECKING:
    from collections.abc import Callable


class AlongTheTraining(QuietRecorder):
    """Tells what is passed on to the models and to the optimizer."""

    name = "values of steps"

    def __init__(self) -> None:
        self.models: list[Any] = []
        self.step = 0  # the one that has begun, or the next one: calls may be seen before it begins
        self.calls = 0
        self._last: list[Any] = []
        self._ids: set[int] = set()
        self._watch: Any = None
        self._has_failed = False

    def models_found(self, models: list[Any]) -> None:
        self.models = list(models)
        self._ids |= {id(model) for model in models}
        if self._watch is None:
            from msprobe.training.phases import ModelCalls

            self._watch = ModelCalls(self._ids, lambda _, *given: self._guarded(self.called, *given))
            self._watch.install()
            updates.listen(self._updating)

    def begin_step(self, step: int) -> None:
        self.step = step

    def end_step(self, step: int) -> None:
        self.step, self.calls, self._last = step + 1, 0, []

    def close(self) -> None:
        updates.leave(self._updating)
        if self._watch is not None:
            self._watch.remove()
            self._watch = None

    def called(self, args: Any, kwargs: Any) -> None:
        """Before a call of a model."""
        tensors = tensors_in((args, kwargs))
        if _is_same_call(tensors, self._last):
            return
        number, self.calls, self._last = self.calls, self.calls + 1, tensors
        for place, tensor in enumerate(tensors):
            self.given(f"{number}.{place}", tensor)

    def named(self, what: str) -> list[tuple[str, Any]]:
        several = len(self.models) > 1
        return [
            (f"{number}.{plain_name(name)}" if several else plain_name(name), tensor)
            for number, model in enumerate(self.models)
            for name, tensor in getattr(model, f"named_{what}")()
        ]

    def weights(self) -> list[tuple[str, Any]]:
        """Weights and buffers."""
        return [*self.named("parameters"), *self.named("buffers")]

    def given(self, place: str, tensor: Any) -> None:
        """A tensor that a model is called with. place: numbers of the call in the step, and of the tensor."""

    def before_update(self, optimizer: Any) -> None:
        """Before the optimizer computes (updates.py)."""

    def _updating(self, optimizer: Any) -> None:
        self._guarded(self.before_update, optimizer)

    def failed(self, error: Exception) -> None:
        """What came of a fault of ours, which the training does not see: nothing more is told."""
        log.warning("%s: %s: %s: not recorded any more", self.name, type(error).__name__, error)

    def _guarded(self, call: Callable[..., None], *arguments: Any) -> None:
        if self._has_failed:
            return
        try:
            call(*arguments)
        except Exception as error:
            # The hooks stay until close(): torch walks over its own, of which none may go meanwhile.
            self._has_failed = True
            self.failed(error)


def modules_of(models: list[Any]) -> dict[str, Any]:
    """By name; where two models have a module of one name, that of the first."""
    found: dict[str, Any] = {}
    for model in models:
        for name, module in named_modules(model):
            found.setdefault(name, module)
    return found


def _is_same_call(tensors: list[Any], last: list[Any]) -> bool:
    """Given the very tensors of the call before. A watch that is inside of another one sees a call twice; and
    a second call with the same tensors is given nothing new.
    """
    return [id(one) for one in tensors] == [id(one) for one in last] != []
