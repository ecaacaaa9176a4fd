# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of some modules in the steps of a training, for recorders that keep or answer them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from msprobe.experiment.along_the_training import modules_of
from msprobe.experiment.ending import end_process
from msprobe.recording.recorder import QuietRecorder
from msprobe.training.graph_capture import captures_graph
from msprobe.training.model_parts import named_modules, plain_name
from msprobe.training.phases import CallWatch, module_call_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class AtModules(QuietRecorder):
    """Leads each call of the modules to `answer`, in steps for which `is_on` is true. A module that is never
    called there ends the process: it is unused, or part of what torch.compile compiled, where nothing is
    seen.
    """

    name = "calls of modules"

    def __init__(self, paths: Sequence[str]) -> None:
        self.step = -1
        self.modules: dict[str, Any] = {}
        self._wanted = tuple(paths)
        self._paths: dict[int, str] = {}
        self._calls: dict[str, int] = {}
        self._inside: set[str] = set()
        self._is_open = False
        self._watch: CallWatch | None = None

    def models_found(self, models: list[Any]) -> None:
        known = modules_of(models)
        self.modules = {path: known[path] for path in self._wanted if path in known}
        self._paths = {id(module): path for path, module in self.modules.items()}
        if self._watch is None:
            self._watch = CallWatch(module_call_operator(), self._observe)
            self._watch.install()

    def begin_step(self, step: int) -> None:
        self.step, self._calls, self._is_open = step, {}, True

    def end_step(self, step: int) -> None:
        self._is_open = False
        for path in self._wanted if self.is_on() else ():
            if path not in self.modules:
                end_process(f"{path}: the model has no module of this name")
            if path not in self._calls:
                end_process(
                    f"{path or 'the model'}: no call of it is seen in step {step}: it is not used, or "
                    "compiled by torch.compile; run without the compiler"
                )

    def drop_step(self, step: int) -> None:
        self._calls = {}

    def close(self) -> None:
        if self._watch is not None:
            self._watch.remove()
            self._watch = None

    def is_on(self) -> bool:
        """Whether calls of this step are answered."""
        return True

    def answer(self, path: str, number: int, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of call `number` of the step. call(*args, **kwargs) is the one of the training; of the
        model itself (path "") it has been made already, whatever the arguments.
        """
        raise NotImplementedError

    def _observe(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        path = self._paths.get(id(args[0])) if args else None
        if path is None or path in self._inside or captures_graph():
            return original(*args, **kwargs)
        self._inside.add(path)  # a watch that is inside of another one sees a call twice
        try:
            if path:
                return self._answered(path, original, args, kwargs)
            result = original(*args, **kwargs)  # a step may begin with it
            return self._answered(path, lambda *_, **__: result, args, kwargs)
        finally:
            self._inside.discard(path)

    def _answered(self, path: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if not self._is_open or not self.is_on():
            return call(*args, **kwargs)
        number = self._calls.get(path, 0)
        self._calls[path] = number + 1
        module = args[0]
        return self.answer(path, number, lambda *a, **k: call(module, *a, **k), args[1:], kwargs)


def weights_of(module: Any) -> dict[str, tuple[Any, list[tuple[Any, str]]]]:
    """Name -> parameter, and each place that holds it: module and name in it. A shared one is there once."""
    found: dict[int, tuple[str, Any, list[tuple[Any, str]]]] = {}
    for path, part in named_modules(module):
        for name, tensor in part._parameters.items():
            if tensor is not None:
                full = plain_name(f"{path}.{name}" if path else name)
                found.setdefault(id(tensor), (full, tensor, []))[2].append((part, name))
    return {name: (tensor, places) for name, tensor, places in found.values()}


@contextlib.contextmanager
def in_place_of_weights(module: Any, exchanged: dict[str, Any]) -> Iterator[None]:
    """Inside, the module computes with these tensors in place of its parameters of the same names."""
    taken: list[tuple[Any, str, Any]] = []
    flat: list[tuple[Any, list[Any]]] = []
    try:
        for name, (tensor, places) in weights_of(module).items():
            for part, key in places if name in exchanged else ():
                taken.append((part, key, tensor))
                part._parameters[key] = exchanged[name]
        for _, part in named_modules(module):
            known = part.__dict__.get("_flat_weights")  # recurrent layers keep them in a list, too
            if isinstance(known, list):
                flat.append((part, known))
                names = part._flat_weights_names
                part.__dict__["_flat_weights"] = [part._parameters.get(name) for name in names]
        yield
    finally:
        for part, key, tensor in taken:
            part._parameters[key] = tensor
        for part, known in flat:
            part.__dict__["_flat_weights"] = known
