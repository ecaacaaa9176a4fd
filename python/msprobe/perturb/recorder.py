# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Perturbs a training along the way, as one of the recorders of `msprobe run`."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from typing import TYPE_CHECKING, Any

from msprobe.engines import COMPILED
from msprobe.hooks.compiled_regions import untraced
from msprobe.hooks.functions import Hooks
from msprobe.hooks.listed_functions import function_exchanges
from msprobe.native import log, torch_adapter
from msprobe.perturb.outputs import write_outputs
from msprobe.perturb.propagation import Propagation
from msprobe.perturb.result import PerturbResult
from msprobe.recording.recorder import QuietRecorder
from msprobe.terminal.progress import Progress
from msprobe.training.graph_capture import captures_graph
from msprobe.training.model_parts import modules, named_modules
from msprobe.training.phases import CallWatch, watch_backward, watch_scaler

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.hooks.functions import Removable

_WHOLE = "(the model itself)"


class Perturbation(QuietRecorder):
    """Recorder of `msprobe perturb`. Between the first call of a model and the optimizer, in the steps
    that are wanted.
    """

    name = "perturbation"

    def __init__(
        self,
        output: Path,
        mode: str,
        steps: Sequence[int],
        *,
        shows_progress: bool = True,
        junit: bool = False,
    ) -> None:
        """steps: empty: all. output: folder of the answer."""
        self.result = PerturbResult(output, mode)
        self.files: list[Path] = []
        self._steps = steps
        self._shows_progress = shows_progress
        self._junit = junit
        self._models: list[Any] = []
        self._open: int | None = None
        self._scaled = False
        self._begin = time.monotonic()
        self._forwards: list[tuple[Any, Any]] = []  # modules whose `forward` is ours, and what was there
        self._propagation: Propagation | None = None
        adapter = torch_adapter()
        self._session = adapter.FunctionInterventions()
        self._probe = adapter.FragilityProbe()
        self._session.set_intervener(self._probe)
        self._hooks: Hooks | None = None
        self._pre_step: Removable | None = None
        self._watches: list[CallWatch] = []
        os.register_at_fork(after_in_child=self._forget)
        self._progress = Progress("perturb", shown=shows_progress)

    # ---- what a recorder is told

    def models_found(self, models: list[Any]) -> None:
        self._models = list(models)

    def begin_step(self, step: int) -> None:
        if self._steps and step not in self._steps:
            return
        if self._pre_step is None:
            self._install()
        self._open = step
        if self.result.mode != "calls" and self._models:
            if self._propagation is None:
                self._propagation = Propagation(self._models[0])
            self._propagation.begin_step()
        self._session.begin_step()
        self._probe.begin_step()
        if self.result.mode != "modules":
            self._name_modules()
            assert self._hooks is not None
            self._hooks.install()
            self._session.set_active(True)

    def drop_step(self, step: int) -> None:
        if self._open is not None:
            self._open = None
            self._stop_seeing()
            if self._propagation is not None:
                self._propagation.end_step()
            self._probe.end_step()

    def discard(self) -> None:
        self.drop_step(-1)
        self._remove()

    def end_step(self, step: int) -> None:
        if self._open is not None:
            self._collect(self._open)

    def close(self) -> None:
        if self._open is not None:
            self._collect(self._open)
        self._remove()
        if self._propagation is not None:
            self.result.modules = self._propagation.sensitivities()
            self.result.expected_loss = self._propagation.expected
            self.result.notes += self._propagation.notes
            self._propagation = None
        self._models = []
        self.result.seconds = time.monotonic() - self._begin
        self.files = write_outputs(self.result, junit=self._junit)

    # ---- a step

    def _remove(self) -> None:
        for watch in reversed(self._watches):
            watch.remove()
        self._watches = []
        if self._pre_step is not None:
            self._pre_step.remove()
            self._pre_step = None
        self._session.end()

    def _install(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._hooks = Hooks(function_exchanges(self._session))
        self._pre_step = register_optimizer_step_pre_hook(
            untraced(lambda _, args, kwargs: self._before_optimizer(args, kwargs))
        )
        self._watches = [*watch_scaler(self._scaler_steps), *watch_backward(self._backward_of)]
        for watch in self._watches:
            watch.install()

    def _scaler_steps(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Gradients are scaled so that some may overflow: that is no finding."""
        is_enabled: Any = getattr(args[0], "is_enabled", None)
        self._scaled = self._scaled or is_enabled is None or bool(is_enabled())
        return original(*args, **kwargs)

    def _backward_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._propagation is None or self._open is None:
            return
        given: Any = args[0] if args else kwargs.get("tensors")
        several: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
        with contextlib.suppress(Exception):  # what cannot be read is no loss
            self._propagation.note_loss(sum(one.item() for one in several if one.numel() == 1))

    def _before_optimizer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What an optimizer computes is none of the model's."""
        if self._open is None or captures_graph():
            return
        if any(map(callable, (*args, *kwargs.values()))):
            return  # a closure, which calls the model
        try:
            self._stop_seeing()
            if self._propagation is not None:
                self._propagation.before_optimizer(self._open)
        except Exception as error:
            self._note(f"{type(error).__name__}: {error}")

    def _forget(self) -> None:
        """In a forked child: what is perturbed is the parent's."""
        if self._open is not None:
            self._open = None
            self._stop_seeing()

    def _stop_seeing(self) -> None:
        self._session.set_active(False)
        if self._hooks is not None:
            self._hooks.remove()
        self._forget_modules()

    def _collect(self, step: int) -> None:
        self._open = None
        self._stop_seeing()
        if self._propagation is not None:
            self._propagation.end_step()
        report = self._probe.end_step(scaled=self._scaled)
        for row in report["rows"]:
            row["stack"] = [frame for frame in row["stack"] if not frame.startswith(_frames_of_torch())]
        self.result.steps.append(step)
        if self.result.mode != "modules":
            self.result.take(report, step)
        for name, fault in report["faults"].items():
            log.debug("perturb: %s: %s", name, fault)
        self._progress(len(self.result.steps), len(self._steps) or len(self.result.steps) + 1)

    # ---- which module makes a call

    def _name_modules(self) -> None:
        """A module is seen at its `forward`, an attribute of the instance for the time of the step."""
        for model in self._models:
            if any(map(_is_compiled, modules(model))):
                self._note("the model is compiled: calls inside of it are not seen")
                continue
            for path, module in named_modules(model):
                before = vars(module).get("forward")
                if before is not None and not (module is model and self._propagation is not None):
                    continue  # somebody else's
                name = f"Module.{path or _WHOLE}.{type(module).__name__}"
                try:
                    module.forward = self._session.make_forward(module.forward, name)
                except Exception as error:  # a module that cannot be changed, as those of TorchScript
                    log.debug("perturb: %s: %s", name, error)
                    continue
                self._forwards.append((module, before))

    def _note(self, text: str) -> None:
        if text not in self.result.notes:
            self.result.notes.append(text)

    def _forget_modules(self) -> None:
        for module, before in reversed(self._forwards):
            vars(module).pop("forward", None)
            if before is not None:
                module.forward = before
        self._forwards = []


@functools.cache
def _frames_of_torch() -> str:
    import torch

    return f"File {os.path.dirname(torch.__file__)}{os.sep}"


def _is_compiled(module: Any) -> bool:
    """Another `forward` would have it compiled anew, in pieces."""
    return hasattr(module, COMPILED) or getattr(module, "_compiled_call_impl", None) is not None
