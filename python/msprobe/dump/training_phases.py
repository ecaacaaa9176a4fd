# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Kinds `gradients` and `optimizer` of the training state: what backward, clipping and optimizers leave."""

from __future__ import annotations

import inspect
import json
import types
from typing import TYPE_CHECKING, Any

from msprobe.native import torch_adapter
from msprobe.training.json_text import Json
from msprobe.training.measurement import entries, groups, measure, members
from msprobe.training.optimizer import OptimizerUpdates
from msprobe.training.optimizer_rules import StepCheck
from msprobe.training.phases import (
    ArrivedGradients,
    watch_backward,
    watch_clipping,
    watch_returned_gradients,
    watch_scaler,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from msprobe.dump.training_state_file import TrainingStateFile
    from msprobe.hooks.functions import Exchange

    Named = Sequence[tuple[str, Any]]


class GradientWatch:
    """Measures `.grad` when it arrives, after each backward, around clipping and before optimizer steps."""

    def __init__(
        self,
        parameters: Named,
        report: TrainingStateFile,
        note_known: Callable[[list[Any]], None] | None = None,
    ) -> None:
        self._parameters = parameters
        self._note_known = note_known
        self._names = {id(parameter): name for name, parameter in parameters}
        self._report = report
        self._arrived: dict[str, Any] = {}
        self._clips = False
        for section in ("backward", "clipping", "gradients_at_optimizer"):
            report.open_list(section)

    def add(self, parameters: Named) -> None:
        """Those of a further model."""
        self._parameters = [*self._parameters, *parameters]
        self._names.update((id(parameter), name) for name, parameter in parameters)

    def exchanges(self) -> list[Exchange]:
        return [
            *watch_returned_gradients(self._note),
            *watch_backward(lambda *_: self._add_backward(), self._forget_arrived),
            *watch_clipping(self._clipping),
            OptimizerUpdates(lambda optimizer, *_: self._optimizer(optimizer), missed=self._optimizer),
        ]

    def arrivals(self) -> list[ArrivedGradients]:
        """Only where gradients may be reduced: elsewhere those after backward are the same."""
        from torch import distributed

        if not distributed.is_available() or not distributed.is_initialized():
            return []
        whole = []
        for name, parameter in self._parameters:
            if hasattr(parameter, "to_local"):
                self._report.note(
                    f"gradient of {name!r} before the reduction: not measured, the parameter is a DTensor "
                    "and its gradient exists in whole only inside the wrapper that shards it"
                )
            elif parameter.requires_grad and parameter.is_leaf:
                whole.append((name, parameter))
        return [ArrivedGradients(whole, self._gradient_arrived)]

    def finish(self) -> None:
        """What arrived in a backward that torch.autograd.backward was not called for."""
        if self._arrived:
            self._add_backward()

    def _gradient_arrived(self, name: str, parameter: Any) -> None:
        with self._report.noting(f"gradient of {name!r} before the reduction"):
            self._arrived[name] = None if parameter.grad is None else measure(parameter.grad)

    def _forget_arrived(self) -> None:
        """A backward that failed, as where another rank died, reduced some of them or none."""
        self._arrived = {}

    def _add_backward(self) -> None:
        record: dict[str, Any] = {}
        if self._arrived:
            record["before_reduction"], self._arrived = self._arrived, {}
        record["after_reduction"] = self._gradients("after backward", self._parameters)
        self._note(parameter.grad for _, parameter in self._parameters)
        with self._report.noting("gradients after backward"):
            self._report.append("backward", record)

    def _note(self, gradients: Iterable[Any]) -> None:
        """That the engine made them."""
        if self._note_known is not None:
            with self._report.noting("gradients that were made"), torch_adapter().NoModes():
                self._note_known([gradient for gradient in gradients if gradient is not None])

    def _clipping(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._clips:  # one function by another
            return original(*args, **kwargs)
        self._clips = True
        try:
            return self._outermost_clipping(original, args, kwargs)
        finally:
            self._clips = False

    def _outermost_clipping(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        try:
            call = inspect.signature(original).bind(*args, **kwargs)
        except TypeError:
            return original(*args, **kwargs)  # which raises it, too
        clipped = [
            (self._names.get(id(parameter), f"parameters.{index}"), parameter)
            for index, parameter in enumerate(_kept_parameters(call.arguments))
        ]
        record: dict[str, Any] = {"function": original.__name__.lstrip("_")}
        with self._report.noting("arguments of clipping"):
            others = {name: value for name, value in call.arguments.items() if name != "parameters"}
            record["arguments"] = dict(entry for item in others.items() for entry in entries(*item))
        record["before"] = self._gradients("before clipping", clipped)
        result = original(*call.args, **call.kwargs)
        record["after"] = self._gradients("after clipping", clipped)
        with self._report.noting("gradients after clipping"):
            record["result"] = dict(entries("total_norm", result))
            self._report.append("clipping", record)
        return result

    def _optimizer(self, optimizer: Any) -> None:
        stepped = {id(one) for group in getattr(optimizer, "param_groups", ()) for one in group["params"]}
        own = [(name, parameter) for name, parameter in self._parameters if id(parameter) in stepped]
        # Of several optimizers one may write into gradients that another one has stepped with.
        gradients = self._gradients("before the optimizer", own or self._parameters)
        with self._report.noting("gradients before the optimizer"):
            self._report.append(
                "gradients_at_optimizer", {"optimizer": type(optimizer).__qualname__, "gradients": gradients}
            )

    def _gradients(self, moment: str, parameters: Named) -> Json:
        """Null for a gradient that is absent although wanted; frozen parameters are left out."""
        found = ""
        with self._report.noting(f"gradients {moment}"):
            found = members(
                parameters, self._report, lambda name: f"gradient of {name!r} {moment}", of="gradient"
            )
        return Json(f"{{{found}}}")


def _kept_parameters(arguments: dict[str, Any]) -> list[Any]:
    """The parameters to clip. An iterator can be read only once: another one takes its place."""
    import torch

    given = arguments["parameters"]
    if isinstance(given, torch.Tensor):
        return [given]
    kept = list(given)
    if iter(given) is given:
        # Of the same type, as the function warns of an empty generator.
        again = (item for item in kept) if isinstance(given, types.GeneratorType) else iter(kept)
        arguments["parameters"] = again
    return kept


class OptimizerWatch:
    """Records hyper-parameters and state of each optimizer step, and what a GradScaler did."""

    def __init__(self, parameters: Named, report: TrainingStateFile) -> None:
        self._names = {id(parameter): name for name, parameter in parameters}
        self._report = report
        self._running: list[dict[str, Any]] = []  # an optimizer may call another one
        self._checks: list[StepCheck | None] = []  # of those that run
        self._count = 0
        for section in ("optimizer", "scaler"):
            report.open_list(section)

    def add(self, parameters: Named) -> None:
        """Those of a further model."""
        self._names.update((id(parameter), name) for name, parameter in parameters)

    def exchanges(self) -> list[Exchange]:
        updates = OptimizerUpdates(lambda optimizer, *_: self._before(optimizer), self._after, self._missed)
        return [updates, *watch_scaler(self._scaled_step)]

    def _before(self, optimizer: Any) -> None:
        self._missed(optimizer)
        self._running[-1]["state_before"] = self._state(optimizer)
        with self._report.noting("rule of the optimizer"):
            self._checks[-1] = StepCheck(optimizer, self._name)

    def _missed(self, optimizer: Any) -> None:
        """The step began before this step of the record: what its state was is not known any more."""
        self._count += 1
        record: dict[str, Any] = {}
        self._running.append(record)
        self._checks.append(None)
        with self._report.noting("hyper-parameters of the optimizer"):
            record["class"] = f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"
            record["groups"] = [
                self._group(index, group) for index, group in enumerate(optimizer.param_groups)
            ]

    def _after(self, optimizer: Any) -> None:
        record = self._running.pop()
        check = self._checks.pop()
        if check is not None:
            with self._report.noting("rule of the optimizer"):
                found = check.after()
                if found is not None:
                    record["update"] = Json(json.dumps(found))
        record["state_after"] = self._state(optimizer)
        with self._report.noting("state of the optimizer"):
            self._report.append("optimizer", record)

    def finish(self) -> None:
        """Steps that raised, and so have no state afterwards."""
        for record in self._running:
            self._report.append("optimizer", record)
        self._running = []

    def _group(self, index: int, group: dict[str, Any]) -> dict[str, Any]:
        hyper: dict[str, Any] = {}
        for key, value in group.items():
            if key != "params":
                hyper.update(entries(str(key), value))
        names = [self._name(index, position, item) for position, item in enumerate(group["params"])]
        return {"parameters": Json(json.dumps(names)), "hyper": hyper}

    def _name(self, group: int, position: int, parameter: Any) -> str:
        return self._names.get(id(parameter), f"groups.{group}.{position}")

    def _state(self, optimizer: Any) -> Json:
        states: list[tuple[str, list[tuple[str, Any]]]] = []
        with self._report.noting("state of the optimizer"):
            for index, group in enumerate(optimizer.param_groups):
                for position, parameter in enumerate(group["params"]):
                    # get: the state is a defaultdict, and asking it for a parameter must not create one
                    state = optimizer.state.get(parameter)
                    if state:
                        items = [(str(key), value) for key, value in state.items()]
                        states.append((self._name(index, position, parameter), items))
        with self._report.noting("state of the optimizer"):
            found = groups(states, self._report, lambda name: f"{name!r} in the state of the optimizer")
            return Json(f"{{{found}}}")
        return Json("{}")

    def _scaled_step(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        record: dict[str, Any] = {}
        before = self._count
        with self._report.noting("scale of the GradScaler"):
            scaler = args[0]
            record = {"enabled": scaler.is_enabled(), "scale": scaler.get_scale()}
        result = original(*args, **kwargs)
        with self._report.noting("scale of the GradScaler"):
            self._report.append("scaler", {**record, "optimizer_stepped": self._count > before})
        return result
