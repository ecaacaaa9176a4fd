# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Leads recorders along a training: finds its models and its steps."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from msprobe.hooks.compiled_regions import RegionWatch, untraced
from msprobe.native import log
from msprobe.training.steps import FinishedSteps, OutermostCalls
from msprobe.training.steps_taken import steps_taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.hooks.functions import Removable


class Recorder(Protocol):
    """One thing that is recorded along a training. What it raises ends it, not the training."""

    @property
    def name(self) -> str:
        """What it records, for messages."""

    def models_found(self, models: list[Any]) -> None:
        """Told before the first call of a model, and again when there are more of them; always before the
        first optimizer step has ended.
        """

    def begin_step(self, step: int) -> None:
        """Before the first call of a model in a step."""

    def end_step(self, step: int) -> None:
        """When the optimizer has stepped."""

    def close(self) -> None:
        """At the end: everything is on disk when it returns."""


@dataclass
class Seen:
    """What was found of a training."""

    models: list[Any] = field(default_factory=list)
    optimizers: list[str] = field(default_factory=list)
    steps: int = 0
    optimizer_steps: int = 0
    first_step: int = 0
    """How many steps the optimizer had made before: the training was resumed."""
    notes: list[str] = field(default_factory=list)


class RecordedTraining:
    """One training that is recorded, from install() to close().

    A model is a module with parameters to be trained that is called, with gradients enabled and in training
    mode as a whole or in part, from outside of all other modules, before the first optimizer step has ended.
    Where it is only a wrapper, as DistributedDataParallel is, the model is what it holds: names are the same
    then on one process and on many.
    A step ends with an optimizer step behind which a model is called again: two optimizers that step together
    end one step.

    models: those to record, where the user names them; else they are found.
    recorders: made by `make_recorders` at the first call of a model, when all that was set up before is done:
        torch.distributed is initialised by then. They are asked in this order, and closed in the reverse one.
    """

    def __init__(self, make_recorders: Callable[[], list[Recorder]], models: list[Any] | None = None) -> None:
        self.seen = Seen(models=[_chain(model)[-1] for model in models or ()])
        self._named = models is not None
        self._make_recorders = make_recorders
        self._recorders: list[Recorder] | None = None
        self._calls = OutermostCalls(self._outermost_call)
        self._regions = RegionWatch(self._region_begins)
        self._steps = FinishedSteps(self._step_finished, self._step_with_closure)
        self._posted: Removable | None = None
        # A call of one of these begins a step: models, and what they are wrapped in.
        self._ids = {id(module) for model in models or () for module in _chain(model)}
        self._parts: set[int] = set()  # of models
        self._no_models: weakref.WeakSet[Any] = weakref.WeakSet()
        self._takes_evaluation = False
        self._is_open = False  # between the first call of a model and the optimizer step
        self._stepped = False
        self._closure_of: int | None = None  # id of the optimizer that steps with a closure
        self._trained_by_closure: set[int] = set()  # those whose closures begin steps
        self._process = os.getpid()
        self._closed = False

    def install(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._calls.install()
        self._regions.install()
        self._steps.install()
        self._posted = register_optimizer_step_post_hook(
            untraced(lambda optimizer, *_: self._stepping(optimizer))
        )
        os.register_at_fork(after_in_child=self._forget)

    def close(self) -> None:
        """Ends everything. Never raises."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        if self._is_open:
            self.seen.steps += 1
        for recorder in reversed(self._recorders or []):
            self._guarded(recorder, "the end", recorder.close)
        for hook in (self._posted, self._steps, self._regions, self._calls):
            if hook is not None:
                hook.remove()
        self._recorders = None

    def forget_models(self) -> None:
        """After close(): they are not kept alive, although the process knows this object to its end."""
        self.seen.models = []

    # ---- what the hooks call

    def _outermost_call(self, module: Any) -> None:
        if self._closed:
            return
        try:
            if self._stepped:
                self._end_step()
            if not self._is_open and self._is_model(module) and _gradients_enabled():
                self._begin_step()
            elif self.seen.steps == 0:
                self._is_model(module)
        except Exception as error:
            self._give_up(error)

    def _region_begins(self, modules: list[Any]) -> None:
        """Inside of a compiled function no call of a model is seen."""
        if not self._calls.is_inside:
            for module in modules:
                self._outermost_call(module)

    def _stepping(self, optimizer: Any) -> None:
        """At the end of a step, but inside of it: torch's hooks cannot be changed here."""
        if self.seen.optimizer_steps == 0:
            self.seen.first_step = max(steps_taken(optimizer) - 1, 0)  # without the one that ends
        self.seen.optimizer_steps += 1
        name = type(optimizer).__name__
        if name not in self.seen.optimizers:
            self.seen.optimizers.append(name)
        self._stepped = True

    def _step_with_closure(self, optimizer: Any) -> None:
        """Where the model is called inside of this optimizer step, what watches the optimizer has to be there
        now. Only the first step tells: there are closures that do nothing.
        """
        if self._closed or os.getpid() != self._process:
            return
        self._closure_of = id(optimizer)
        if self._is_open or self._closure_of not in self._trained_by_closure:
            return
        try:
            self._begin_step()
        except Exception as error:
            self._give_up(error)

    def _step_finished(self, optimizer: Any) -> None:
        if self._closed or os.getpid() != self._process:
            return
        self._closure_of = None
        try:
            if not self.seen.models and not self._takes_evaluation:
                self._takes_evaluation = True
                self._note(
                    "an optimizer stepped before a model was called in training mode: from here on a model "
                    "in evaluation mode counts, too"
                )
            self._end_step()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._note(f"nothing more is recorded: {type(error).__name__}: {error}")
        self.close()

    def _forget(self) -> None:
        """In a forked child: what is recorded is the parent's."""
        self._closed = True

    # ---- models

    def _is_model(self, module: Any) -> bool:
        """Whether a call of `module` from outside is one of a model; a new one is remembered."""
        if id(module) in self._ids:
            return True
        if id(module) in self._parts or module in self._no_models:
            return False
        if self._named:
            # As DistributedDataParallel holds a model.
            if self._ids.intersection(id(part) for part in module.modules()):
                self._ids.add(id(module))
                return True
            self._no_models.add(module)
            return False
        return self._is_new_model(module)

    def _is_new_model(self, module: Any) -> bool:
        if self.seen.steps > 0 or not _gradients_enabled():
            return False
        # Of any part: a trainer may switch the model back after an evaluation, but not what it is wrapped in.
        if not (self._takes_evaluation or any(part.training for part in module.modules())):
            return False
        if not any(parameter.requires_grad for parameter in module.parameters()):
            self._no_models.add(module)
            return False
        parts = {id(part) for part in module.modules()}
        chain = _chain(module)
        known = self.seen.models
        # A part may have been called before the whole, e.g. to find out a shape.
        self.seen.models = [*(model for model in known if id(model) not in parts), chain[-1]]
        self._ids = (self._ids - parts) | {id(one) for one in chain}
        self._parts |= parts - self._ids
        if self._recorders is not None and known != self.seen.models:
            self._tell("models_found", self.seen.models)
        return True

    # ---- steps

    def _begin_step(self) -> None:
        self._is_open = True
        if self._closure_of is not None:
            self._trained_by_closure.add(self._closure_of)
        if self._recorders is None:
            self._recorders = []
            try:
                self._recorders = self._make_recorders()
            except Exception as error:
                self._note(f"nothing is recorded: {type(error).__name__}: {error}")
            self._tell("models_found", self.seen.models)
        self._tell("begin_step", self.seen.steps)

    def _end_step(self) -> None:
        self._stepped = False
        if not self._is_open:
            return
        self._is_open = False
        self._tell("end_step", self.seen.steps)
        self.seen.steps += 1

    def _tell(self, what: str, argument: Any) -> None:
        for recorder in list(self._recorders or []):
            self._guarded(recorder, what.replace("_", " "), getattr(recorder, what), argument)

    def _guarded(self, recorder: Recorder, what: str, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception as error:
            self._note(f"{recorder.name}: {what}: {type(error).__name__}: {error}: not recorded any more")
            assert self._recorders is not None
            if recorder in self._recorders:
                self._recorders.remove(recorder)
                try:
                    recorder.close()
                except Exception as other:
                    log.debug("%s: close: %s", recorder.name, other)

    def _note(self, text: str) -> None:
        self.seen.notes.append(text)
        log.warning("%s", text)


def _chain(module: Any) -> list[Any]:
    """A module and, while it is nothing but a wrapper around one named "module", what it holds."""
    chain = [module]
    while True:
        outer = chain[-1]
        inner = getattr(outer, "module", None)
        children = [name for name, _ in outer.named_children()]
        own = [*outer.parameters(recurse=False), *outer.buffers(recurse=False)]
        if children != ["module"] or own or any(inner is one for one in chain):
            return chain
        chain.append(inner)


def _gradients_enabled() -> bool:
    import torch

    return torch.is_grad_enabled()
