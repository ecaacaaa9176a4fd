# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Leads recorders along a training: finds its models and its steps."""

from __future__ import annotations

import contextlib
import os
import weakref
from dataclasses import dataclass, field
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from msprobe.hooks.compiled_regions import RegionWatch, untraced
from msprobe.native import log, torch_adapter
from msprobe.recording.called_models import TrainedModels, name_in_program
from msprobe.recording.forward_only import ForwardOnly
from msprobe.training.graph_capture import captures_graph
from msprobe.training.measurement import has_numbers
from msprobe.training.model_parts import is_training, modules, parameters, parts_of
from msprobe.training.optimizer import has_any, optimizers_of_process
from msprobe.training.phases import inside_of_backward, watch_gradients
from msprobe.training.steps import FinishedSteps, OutermostCalls
from msprobe.training.steps_taken import steps_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from msprobe.hooks.functions import Removable
    from msprobe.recording.forward_only import Callee
    from msprobe.recording.recorder import Recorder
    from msprobe.training.phases import CallWatch


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
    forward_only: list[dict[str, Any]] = field(default_factory=list)
    """Calls that led to no step, as run.rank{R}.json has them; at the end."""
    described: list[dict[str, Any]] = field(default_factory=list)
    """Class and number of parameters, of models that are not torch's."""


class RecordedTraining:
    """One training that is recorded, from install() to close().

    A step begins with a call of a model, with gradients enabled and in training mode as a whole or in part,
    whose result is still there when the backward pass comes, and ends with an optimizer step behind which a
    model is called again: two optimizers that step together end one step. So calls to find out a shape, on
    the meta device or without gradients are none, and what was begun with one is dropped (`drop_step`): they
    are counted as forward only.
    Which modules are models: TrainedModels; they are found before the first optimizer step has ended. Later
    ones that an optimizer has whose turn comes later are recorded beside them.

    models: those to record, where the user names them; else they are found.
    recorders: made by `make_recorders` at the first call of a model, when all that was set up before is done:
        torch.distributed is initialised by then. They are asked in this order, and closed in the reverse one.
    steps: those that are recorded; empty: all.
    make_early: gives those of them that record what prepares the first step, when an optimizer is made.
    """

    def __init__(
        self,
        make_recorders: Callable[[], list[Recorder]],
        models: list[Any] | None = None,
        steps: Collection[int] = (),
        make_early: Callable[[], list[Recorder]] = list,
    ) -> None:
        self.models = TrainedModels(models)
        self.seen = Seen(models=self.models.found)
        self._make_recorders = make_recorders
        self._recorders: list[Recorder] | None = None
        self._make_early = make_early
        self._early: list[Recorder] = []
        self._calls = OutermostCalls(self._outermost_call)
        self._regions = RegionWatch(self._region_begins)
        self._steps = FinishedSteps(self._step_finished, self._step_with_closure, self._optimizer_made)
        self._backward: list[CallWatch] = []
        self._posted: Removable | None = None
        self._beside: dict[int, Any] = {}  # weak references to modules that are called beside the models
        self._turns: dict[int, tuple[Any, bool]] = {}  # weak references to modules that come later, by id
        self._later: list[Any] = []  # weak references to optimizers that had not stepped in the first step
        self._stepped_once: set[int] = set()  # ids of optimizers
        self._forward_only = ForwardOnly(steps)
        self._takes_evaluation = False
        self._passed_over = False  # a model in evaluation mode, since a step ended
        self._in_question = False  # whether the open step is one: it began with a model in evaluation mode
        self._is_open = False  # between the first call of a model and the optimizer step
        # Of the calls of the open step: who was called, and its result. None: a backward has been.
        self._results: list[tuple[Callee | None, Any]] | None = []
        self._stepped = False
        self._closure_of: int | None = None  # id of the optimizer that steps with a closure
        self._trained_by_closure: set[int] = set()  # those whose closures begin steps
        self._process = os.getpid()
        self._closed = False

    def install(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        torch_adapter()  # whether there is one
        self._calls.install()
        self._regions.install()
        self._steps.install()
        self._backward = watch_gradients(lambda *_: self._backward_ended())
        for watch in self._backward:
            watch.install()
        self._posted = register_optimizer_step_post_hook(
            untraced(lambda optimizer, *_: None if captures_graph() else self._stepping(optimizer))
        )
        os.register_at_fork(after_in_child=self._forget)
        if optimizers_of_process():  # a notebook begins to record behind them
            self._optimizer_made()

    def close(self) -> None:
        """Ends everything. Never raises."""
        if self._closed or os.getpid() != self._process:
            return
        self._closed = True
        if self._in_question and self._results is not None:  # an evaluation in the end
            self._drop_step()
        if self._is_open:
            self.seen.steps += 1
        self.seen.forward_only = self._forward_only.rows()
        for recorder in reversed(self._led()):
            self._guarded(recorder, "the end", recorder.close)
        for hook in (self._posted, *self._backward, self._steps, self._regions, self._calls):
            if hook is not None:
                hook.remove()
        self._recorders = None

    def forget_models(self) -> None:
        """After close(): they are not kept alive, although the process knows this object to its end."""
        self.models.forget()
        self.seen.models = []

    # ---- what the hooks call

    def _outermost_call(self, module: Any, arguments: list[Any]) -> Callable[[Any], None] | None:
        """What takes its result, where that is to be looked at."""
        if self._closed or inside_of_backward():  # what is computed again for its gradients
            return None
        try:
            computes, has_gradients = _computes(), _gradients_enabled()
            with torch_adapter().NoModes():
                if self._stepped:
                    self._end_step()
                if computes and has_gradients and self._is_trained(module, arguments):
                    return self._training_call(module)
                if not self._is_open:
                    return self._forward_only_call(module, computes)
                if computes:
                    self._call_beside(module)
        except Exception as error:
            self._give_up(error)
        return None

    def _forward_only_call(self, module: Any, computes: bool) -> Callable[[Any], None] | None:
        callee = self._forward_only.callee(module)
        takes = self._forward_only.count(callee, self.seen.steps)
        if callee is None:  # a function of the program, as a transform of data is
            return None
        self._tell("set_aside", True)

        def returned(result: Any) -> None:
            if takes is not None and computes:
                takes(result)
            self._tell("set_aside", False)

        return returned

    def _led_to_nothing(self) -> bool:
        return bool(self._results) and not any(result.is_alive() for _, result in self._results or ())

    def _training_call(self, module: Any) -> Callable[[Any], None] | None:
        if self._is_open and (self._led_to_nothing() or (self._in_question and self._is_in_training(module))):
            self._drop_step()
        is_known = self.seen.steps == 0 or module in self.models
        if is_known and self.models.enter(module):
            self.seen.models = self.models.found
            if self._recorders is not None:
                self._tell("models_found", self.seen.models)
        if not self._is_open:
            self._in_question = not self._is_in_training(module)
            self._begin_step()
        if not is_known:
            self._call_beside(module)
        if self._results is None:
            return None
        callee = self._forward_only.callee(module)
        return lambda result: self._training_call_returned(callee, result)

    def _training_call_returned(self, callee: Callee | None, result: Any) -> None:
        try:
            if self._results is not None:
                self._results.append((callee, torch_adapter().ResultsWatch(result)))
        except Exception as error:
            self._give_up(error)

    def _backward_ended(self) -> None:
        self._results = None

    def _region_begins(self, modules: list[Any]) -> None:
        """Inside of a compiled function no call of a model is seen."""
        if not self._calls.is_inside:
            for module in modules:
                self._outermost_call(module, [])

    def _stepping(self, optimizer: Any) -> None:
        """At the end of a step, but inside of it: torch's hooks cannot be changed here."""
        if self.seen.optimizer_steps == 0:
            self.seen.first_step = max(steps_taken(optimizer) - 1, 0)  # without the one that ends
        self.seen.optimizer_steps += 1
        self._stepped_once.add(id(optimizer))
        name = type(optimizer).__name__
        if name not in self.seen.optimizers:
            self.seen.optimizers.append(name)
        self._stepped = True

    def _optimizer_made(self) -> None:
        """In front of the first step: what is made behind the last optimizer is data."""
        if self._closed or os.getpid() != self._process or self._is_open or self.seen.steps > 0:
            return
        try:
            with torch_adapter().NoModes():
                self._early = self._early or self._make_early()
                self._tell("prepare_step", 0)
        except Exception as error:
            log.debug("what prepares the first step is not recorded: %s: %s", type(error).__name__, error)

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
            with torch_adapter().NoModes():
                self._begin_step()
        except Exception as error:
            self._give_up(error)

    def _step_finished(self, optimizer: Any) -> None:
        if self._closed or os.getpid() != self._process:
            return
        self._closure_of = None
        if inside_of_backward():
            return  # of one parameter, as its gradient comes: the step ends before the next call of a model
        try:
            passed_over = self._passed_over or not self.seen.models
            if passed_over and (self._in_question or not self._is_open) and not self._takes_evaluation:
                self._takes_evaluation = True
                self._note(
                    "an optimizer stepped before a model was called in training mode: from here on a model "
                    "in evaluation mode counts, too"
                )
            with torch_adapter().NoModes():
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

    def _is_trained(self, module: Any, arguments: list[Any]) -> bool:
        """Whether a call of `module` from outside, with gradients, is one of a model."""
        if module not in self.models and (
            self.models.is_named
            or not any(map(_can_be_trained, parameters(module)))
            or (self.seen.steps > 0 and not self._has_its_turn(module))
        ):
            return False
        if self._is_in_training(module):
            return True
        self._passed_over = True
        # The program may have forgotten to go back to training mode: then no call in that mode follows. Who
        # wants gradients of data, as for an attack, has not.
        return (
            module in self.models
            and self.seen.steps > 0
            and (self._in_question or not self._is_open)
            and not any(getattr(one, "requires_grad", False) is True for one in arguments)
        )

    def _is_in_training(self, module: Any) -> bool:
        # Of any part: a trainer may switch the model back after an evaluation, but not what it is wrapped in.
        return self.models.is_named or self._takes_evaluation or any(map(is_training, modules(module)))

    def _has_its_turn(self, module: Any) -> bool:
        """Whether an optimizer that was there in the first step, and had not stepped when the module was
        called first, has parameters of it: of optimizers that take turns, as those of a GAN.
        """
        known = self._turns.get(id(module))
        if known is None or known[0]() is not module:
            held = {id(parameter) for parameter in parameters(module)}
            waiting = [one for one in (made() for made in self._later) if one is not None]
            has_turn = any(id(one) not in self._stepped_once and has_any(one, held) for one in waiting)
            known = self._turns[id(module)] = weakref.ref(module), has_turn
        return known[1]

    def _call_beside(self, module: Any) -> None:
        known = self._beside.get(id(module))
        if (known is not None and known() is module) or module in self.models or not parts_of(module):
            return
        self._beside[id(module)] = weakref.ref(module)
        if self._recorders:
            self._tell("called_beside", name_in_program(module), module)

    # ---- steps

    def _begin_step(self) -> None:
        self._is_open = True
        self._results = []
        if self._closure_of is not None:
            self._trained_by_closure.add(self._closure_of)
        if self._recorders is None:
            self._recorders = []
            try:
                self._recorders = self._make_recorders()
            except Exception as error:
                self._note(f"nothing is recorded: {type(error).__name__}: {error}")
                for recorder in self._early:
                    self._guarded(recorder, "the end", recorder.close)
            self._early = []
            self._tell("models_found", self.seen.models)
        self._tell("begin_step", self.seen.steps)

    def _drop_step(self) -> None:
        """The calls of the open step were an evaluation, or led to nothing: no backward pass has been, and no
        result is left.
        """
        self._is_open = self._in_question = False
        for callee, _ in self._results or ():
            self._forward_only.count(callee, self.seen.steps)
        if self.seen.steps > 0:
            self._tell("drop_step", self.seen.steps)
            return
        for recorder in reversed(self._recorders or []):
            self._guarded(recorder, "beginning anew", recorder.discard)
        self._recorders = None
        self.models.clear()
        self._beside.clear()

    def _end_step(self) -> None:
        self._stepped = self._passed_over = self._in_question = False
        if not self._is_open:
            return
        self._is_open = False
        if self.seen.steps == 0:
            with contextlib.suppress(Exception):  # of one that is not complete
                waiting = (one for one in optimizers_of_process() if id(one) not in self._stepped_once)
                self._later = [weakref.ref(one) for one in waiting]
        self._tell("end_step", self.seen.steps)
        self.seen.steps += 1
        self._tell("prepare_step", self.seen.steps)

    def _led(self) -> list[Recorder]:
        """The recorders that there are; in front of the first step the early ones."""
        return self._early if self._recorders is None else self._recorders

    def _tell(self, what: str, *arguments: Any) -> None:
        tell = methodcaller(what, *arguments)
        for recorder in list(self._led()):
            self._guarded(recorder, what.replace("_", " "), tell, recorder)

    def _guarded(self, recorder: Recorder, what: str, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception as error:
            self._note(f"{recorder.name}: {what}: {type(error).__name__}: {error}: not recorded any more")
            if recorder in self._led():
                self._led().remove(recorder)
                try:
                    recorder.close()
                except Exception as other:
                    log.debug("%s: close: %s", recorder.name, other)

    def _note(self, text: str) -> None:
        self.seen.notes.append(text)
        log.warning("%s", text)


def _gradients_enabled() -> bool:
    import torch

    return torch.is_grad_enabled()


def _computes() -> bool:
    """Whether numbers are computed: not where torch traces a program, or works out shapes alone."""
    import torch

    if torch._C._get_tracing_state() is not None:
        return False
    mode_of: Any = getattr(torch._C, "_get_dispatch_mode", None)
    keys: Any = getattr(torch._C, "_TorchDispatchModeKey", None)
    if mode_of is None or keys is None:
        return True
    return all(mode_of(key) is None for key in (keys.FAKE, keys.PROXY, keys.FUNCTIONAL))


def _can_be_trained(parameter: Any) -> bool:
    return bool(parameter.requires_grad) and has_numbers(parameter)
