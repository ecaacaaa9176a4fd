# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a diagnosis of two runs needs beyond the dump: one file diagnosis.json per step and rank.

Format: docs/formats/diagnosis.md.
"""

from __future__ import annotations

import contextlib
import json
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.dump.surroundings import ModuleSettings
from msprobe.dump.training_phases import GradientWatch, OptimizerWatch
from msprobe.dump.training_state_file import FILE, LINE, TrainingStateFile
from msprobe.hooks.functions import Hooks
from msprobe.native import import_torch, log, torch_adapter
from msprobe.training.job_layout import job_layout
from msprobe.training.json_text import Json, json_text
from msprobe.training.measurement import entries, has_numbers, members, tensors_in
from msprobe.training.model_parts import named_buffers, named_modules, named_parameters, parameters
from msprobe.training.phases import ModelCalls, inside_of_backward
from msprobe.training.running_program import held_tensors
from msprobe.training.torch_state import random_states, switches

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Literal

    from torch import nn

    from msprobe.dump.training_state_file import Attach
    from msprobe.hooks.functions import Exchange

# Bytes of data that are measured at a call of the model, where the parameters are fewer: measuring both takes
# as long as one of the dozen times that a recorded step reads the parameters.
_LEAST_DATA = 1 << 20
_OF_A_MODEL = ("inputs", "parameters", "gradients", "modules")


class TrainingState:
    """Records the kinds of the configuration key "diagnosis", from begin_step() to end_step() of a step.

    Without kinds every method does nothing. After construction nothing here raises because of what is
    measured or written: a fault becomes a line of the file, and the first one of the process a warning.

    Hooks that were installed after those of this must be taken off before: other hooks come and go
    inside of `with state.aside():`.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        entrances: Mapping[int, str] | None = None,
        averaged: Callable[[], Mapping[str, nn.Module]] | None = None,
        attach: Attach | None = None,
        note_known: Callable[[list[Any]], None] | None = None,
    ) -> None:
        """entrances: paths of parts of the model that are called in its place, by id; more may come.
        averaged: gives the modules that hold averages of its weights, by their names.
        attach: as for TrainingStateFile.
        note_known: is told of tensors that no recorded call made, and that hold what they are to hold.
        """
        self._averaged = averaged
        self._note_known = note_known
        self._attach = attach
        self._kinds = tuple(kinds)
        self._entrances: Mapping[int, str] = {} if entrances is None else entrances
        self._step: _Step | None = None
        self._warned = False
        self._settings = ModuleSettings()
        self._others: dict[str, nn.Module] = {}
        if self._kinds:
            import_torch()

    def begin_step(
        self,
        model: object,
        directory: str | os.PathLike[str],
        *,
        watches: bool = True,
        model_calls_before: int = 0,
    ) -> None:
        """Measures the state before the step, and installs the hooks. Does nothing in a step that has begun;
        another directory ends that first.

        watches: False leaves the hooks to watch(), for whoever installs others first.
        model: a module or a list of them as start() takes them, or None: then the kinds that need one are
        left out, and the file says so.
        model_calls_before: calls of models that prepared the step, and are not recorded.
        """
        if not self._kinds:
            return
        path = Path(directory, FILE)
        if self._step is not None:
            if self._step.report.path == path:
                self._step.takes_calls = True
                return
            self.end_step()
        report = TrainingStateFile(path, self._kinds, self._attach)
        self._step = _Step(
            self._kinds, model, self._others, report, self._settings, self._entrances, self._note_known
        )
        if model_calls_before:
            report.set("preparation", "model_calls", model_calls_before)
        if self._averaged is not None and "parameters" in self._kinds:
            self._step.measure_averaged(self._averaged)
        self._step.install_permanent()
        if watches:
            self.watch()

    def watch(self) -> None:
        """Installs the hooks of the step that has begun, unless they are."""
        if self._step is not None:
            self._step.put_back()

    def add_model(self, name: str, model: nn.Module) -> None:
        """A further model, whose parts have `name` in front of their names, from now on."""
        self._others[name] = model
        if self._step is not None:
            self._step.add_model(name, model)

    def end_calls(self) -> None:
        """Calls of the model are none of this step any more, unless it begins again."""
        if self._step is not None:
            self._step.takes_calls = False

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """No hook of this is installed inside."""
        step = self._step
        was_installed = step is not None and step.take_aside()
        try:
            yield
        finally:
            if was_installed and step is not None and step is self._step:
                step.put_back()

    def end_step(self) -> None:
        """Measures what the step left behind, takes the hooks off and writes the file."""
        if self._step is None:
            return
        step, self._step = self._step, None
        step.remove()
        step.finish()
        problem = step.report.write()
        fault = step.report.first_fault
        if problem:
            self._warn("the training state of a step is not on disk: %s", problem)
        elif fault:
            self._warn("the training state could not measure everything, see %s: %s", step.report.path, fault)

    def forget(self) -> None:
        """In a forked child: takes the hooks off and writes nothing, the file is the parent's."""
        if self._step is not None:
            self._step.remove()
            self._step = None

    def _warn(self, message: str, *args: object) -> None:
        if not self._warned:
            self._warned = True
            log.warning(message + " (further faults of this run are not logged)", *args)


class _Step:
    """One recorded step."""

    def __init__(
        self,
        kinds: tuple[str, ...],
        model: object,
        others: dict[str, nn.Module],
        report: TrainingStateFile,
        settings: ModuleSettings,
        entrances: Mapping[int, str],
        note_known: Callable[[list[Any]], None] | None,
    ) -> None:
        self.report = report
        self._note_known = note_known
        self._settings = settings
        self.takes_calls = True
        self._kinds = kinds
        self._roots: dict[int, str] = {}  # id of a root model -> its name, "" when there is one
        self._models: list[tuple[str, nn.Module]] = []  # with the beginning of the names inside
        self._called = False
        with report.noting("model"):
            self._models = self._models_of(model)
        self._models += [(f"{name}.", other) for name, other in others.items()]
        self._paths = {**entrances, **self._roots}  # of what is called
        parameters = self._named(named_parameters)
        self._held = _HeldData(parameters)
        self._measure_before(parameters)
        exchanges: list[Exchange] = []
        self._watches: list[GradientWatch | OptimizerWatch] = []
        self._permanent = Hooks([])
        if {"inputs", "determinism"}.intersection(kinds) and self._models:
            exchanges.append(ModelCalls(self._paths, self._before_call))
        if "gradients" in kinds and self._models:
            gradients = GradientWatch(parameters, report, note_known)
            self._watches.append(gradients)
            with report.noting("hooks of gradients"):
                exchanges += gradients.exchanges()
                self._permanent = Hooks([*gradients.arrivals()])
        if "optimizer" in kinds:
            optimizer = OptimizerWatch(parameters, report)
            self._watches.append(optimizer)
            with report.noting("hooks of the optimizer"):
                exchanges += optimizer.exchanges()
        self._exchanges = exchanges
        self._hooks: Hooks | None = None

    # ---- hooks

    def install_permanent(self) -> None:
        with self.report.noting("hooks of gradients"):
            self._permanent.install()

    def put_back(self) -> None:
        if self._hooks is None:
            self._hooks = Hooks(self._exchanges)
            with self.report.noting("hooks"):
                self._hooks.install()

    def take_aside(self) -> bool:
        """Whether there were hooks."""
        if self._hooks is None:
            return False
        self._hooks.remove()
        self._hooks = None
        return True

    def remove(self) -> None:
        self.take_aside()
        self._permanent.remove()

    def add_model(self, name: str, model: nn.Module) -> None:
        """Measures it now: it was not known when the step began. What a call puts in the place of parameters,
        as torch.func.functional_call does, was computed and is none.
        """
        known, self._models = self._models, [(f"{name}.", model)]
        parameters = [(path, one) for path, one in self._named(named_parameters) if one.is_leaf]
        self._measure_models(parameters)
        for watch in self._watches:
            watch.add(parameters)
        self._models = [*known, *self._models]

    # ---- before and after

    def _measure_before(self, parameters: list[tuple[str, nn.Parameter]]) -> None:
        report = self.report
        with report.noting("layout of the job"):
            for name, value in job_layout(self._models).items():
                report.set("layout", name, value)
        if "rng" in self._kinds:
            self._measure_random("start")
        if "determinism" in self._kinds:
            self._measure_switches("start")
        if "inputs" in self._kinds:
            report.open_list("inputs")
        self._measure_models(parameters)

    def _measure_models(self, parameters: list[tuple[str, nn.Parameter]]) -> None:
        if "modules" in self._kinds:
            self.report.open_map("modules")
            self._measure_modules()
        if "parameters" in self._kinds:
            self.report.open_map("parameters")
            self.report.open_map("buffers")
            self._measure_all("parameters", parameters, "parameter")
            self._measure_all("buffers", self._named(named_buffers), "value")

    def measure_averaged(self, find: Callable[[], Mapping[str, nn.Module]]) -> None:
        """As buffers: the training keeps them beside the parameters, and no gradient changes them."""
        with self.report.noting("averaged weights"):
            for name, module in find().items():
                named = [(f"{name}.{path}", one) for path, one in named_parameters(module)]
                self._measure_all("buffers", named, "value")

    def _measure_modules(self) -> None:
        found = []
        with self.report.noting("modules"):
            for path, module in self._named(named_modules):
                try:  # not noting() for each: there are thousands
                    found.append(f"{json_text(path)}: {self._settings.text(path, module, self.report)}")
                except Exception as error:
                    self.report.note_error(f"module {path!r}", error)
        self.report.add_members("modules", Json(LINE.join(found)))

    def _measure_all(
        self, section: str, named: list[tuple[str, Any]], of: Literal["parameter", "value"]
    ) -> None:
        with self.report.noting(section):
            found = members(
                named, self.report, lambda name: f"{section[:-1]} {name!r}", of=of, separator=LINE
            )
            self.report.add_members(section, found)

    def finish(self) -> None:
        if "rng" in self._kinds:
            self._measure_random("step")
        for watch in self._watches:
            with self.report.noting("end of the step"):
                watch.finish()

    def _measure_random(self, moment: str) -> None:
        found = {}
        with self.report.noting(f"random generators at {moment}"):
            for name, checksum in random_states().items():
                with self.report.noting(f"random generator {name} at {moment}"):
                    found[name] = checksum()
            self.report.set("rng", moment, found)

    def _measure_switches(self, moment: str) -> None:
        with self.report.noting(f"switches of torch at {moment}"):
            parameter = next((one for _, model in self._models for one in parameters(model)), None)
            device = {} if parameter is None else {"device": parameter.device.type}
            self.report.set("determinism", moment, Json(json.dumps({**device, **switches()})))

    # ---- the model

    def _models_of(self, model: object) -> list[tuple[str, nn.Module]]:
        from torch import nn

        if isinstance(model, nn.Module):
            self._roots = {id(model): ""}
            return [("", model)]
        if isinstance(model, (list, tuple)) and model and all(isinstance(item, nn.Module) for item in model):
            self._roots = {id(item): str(index) for index, item in enumerate(model)}
            return [(f"{index}.", item) for index, item in enumerate(model)]
        unmet = [kind for kind in _OF_A_MODEL if kind in self._kinds]
        if unmet:
            found = "no model" if model is None else f"a value of type {type(model).__qualname__}"
            self.report.note(
                f"start: {', '.join(unmet)}: nothing is recorded, expected a torch.nn.Module or a list of "
                f"them, found {found}"
            )
        return []

    def _named(self, parts_of: Callable[[Any], Iterator[tuple[str, Any]]]) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for prefix, model in self._models:
            with self.report.noting(f"{parts_of.__name__} of the model"):
                found += [((prefix + name).rstrip("."), item) for name, item in parts_of(model)]
        return found

    def _before_call(self, model: Any, args: Any, kwargs: Any) -> None:
        if not self.takes_calls or inside_of_backward():
            return
        if "determinism" in self._kinds and not self._called:
            self._measure_switches("forward")
        self._called = True
        if "inputs" in self._kinds:
            record: dict[str, Any] = {"model": self._paths[id(model)], "tensors": {}}
            with self.report.noting("inputs"), torch_adapter().NoModes():
                for part, values in (("args", args), ("kwargs", kwargs)):
                    record["tensors"].update(entries(part, values, leaves_out=_is_computed))
            with self.report.noting("data of the program"), torch_adapter().NoModes():
                held = self._held.new_tensors()
                record["data"] = Json(f"{{{members(held.items(), self.report, _data)}}}")
                if self._note_known is not None:
                    self._note_known([*tensors_in((args, kwargs)), *held.values()])
            with self.report.noting("inputs"):
                self.report.append("inputs", record)


def _is_computed(tensor: Any) -> bool:
    """In this step: what one part of a model gives to the next one is no data."""
    return tensor.grad_fn is not None


def _data(name: str) -> str:
    return f"{name!r} of the program"


class _HeldData:
    """What the functions that call the model hold beside its inputs, once in a step."""

    def __init__(self, parameters: list[tuple[str, nn.Parameter]]) -> None:
        self._parameters = parameters
        self._known: dict[int, tuple[Any, int]] = {}  # by id: a weak reference, and the version

    def new_tensors(self) -> dict[str, Any]:
        """As held_tensors(); without those of an earlier call that nobody has written to since."""
        found = {}
        for name, tensor in held_tensors(max(self._size_of_parameters(), _LEAST_DATA)).items():
            known, version = self._known.get(id(tensor), (None, -1))
            now = -1 if tensor.is_inference() else tensor._version
            if known is None or known() is not tensor or version != now:
                self._known[id(tensor)] = weakref.ref(tensor), now
                found[name] = tensor
        return found

    def _size_of_parameters(self) -> int:
        from torch.nn.parameter import is_lazy

        known = (one for _, one in self._parameters if not is_lazy(one) and has_numbers(one))
        return sum(int(one.numel()) * int(one.element_size()) for one in known)
