# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The data dump of a torch that the native adapter was not built for: the calls are seen by Python, and the
native core decides, measures and writes as always.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from msprobe.frameworks.backward import BackwardOfCall, number_of
from msprobe.frameworks.torch.modes import SeenCalls, here, is_inside, push_mode
from msprobe.frameworks.torch.values import TorchValues, tensors_of
from msprobe.native import InternalError, UnsupportedError, core

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

T = TypeVar("T")
# Hooks that send a module's call on torch's long way.
_OWN_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")


class DumpOptions:
    """only_evidence has no effect: memory that says nothing has statistics, too."""

    def __init__(
        self,
        config: core.Config | None = None,
        *,
        only_evidence: bool = False,
        packed: bool = False,
        sketch: bool = True,
    ) -> None:
        self.config = config
        self.packed = packed
        self.sketch = sketch


class DumpSession:
    """As _torch.DumpSession. A fault of ours never reaches the training: it is noted."""

    def __init__(self, options: DumpOptions, *, stacks: bool = True) -> None:
        if options.config is None:
            raise InternalError("DumpOptions: expected a configuration")
        if options.config.level == "L2":
            raise UnsupportedError(
                '"level": L2 needs the recorder that is built for this torch; expected L0 to mix'
            )
        self._session = core.DumpSession(
            options.config, TorchValues(), stacks=stacks, packed=options.packed, sketch=options.sketch
        )
        self._modules: dict[int, tuple[Any, str]] = {}
        self._functions: dict[Any, str] = {}
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._newest = -1
        self._handles: list[Any] = []
        self._unfinished: list[Callable[[], None]] = []
        self._open: list[tuple[Any, Any, Any]] = []  # module, call, its backward

    # ---- steps

    def open(self, directory: str | os.PathLike[str], read_all: bool = False) -> None:
        self._session.open(directory)

    def begin_flush(self) -> None:
        self._session.begin_flush()

    def attach(self, path: str, content: str) -> bool:
        return self._session.attach(path, content)

    def close(self, *, wait: bool = True) -> None:
        for finish in self._unfinished:
            self._attempt("", finish)
        for handle in self._handles:
            handle.remove()
        self._unfinished, self._handles, self._newest, self._open = [], [], -1, []
        self._counts.clear()
        self._session.close()

    def end(self) -> None:
        self.close()
        self._session.end()

    def report(self) -> dict[str, Any]:
        return {**self._session.report(), "operators": 0, "is_late": False}

    def finished_reports(self) -> list[dict[str, Any]]:
        return []

    def set_collecting(self, collecting: bool) -> None:
        self._session.set_collecting(collecting)

    # ---- functions

    def observe_function(self, function: object, name: str) -> None:
        self._functions.setdefault(function, name)

    def wrapper(self, original: Any, name: str, distributed: bool = False) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._function_call(name, original, args, kwargs, distributed)

        return functools.update_wrapper(call, original, updated=())

    def function_mode(self) -> Any:
        return SeenCalls(self._functions.get, self._function_call, is_inside)

    def push_mode(self, mode: object) -> None:
        push_mode(mode)

    def _function_call(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, distributed: bool = False
    ) -> Any:
        if is_inside() or not self._session.is_collecting:
            return function(*args, **kwargs)
        record = f"{name}.{self._number(name)}.forward"
        again = _is_repeated()
        call = self._attempt(
            record, lambda: self._session.begin_call(record, args, kwargs, distributed, again)
        )
        if call is None:
            return function(*args, **kwargs)
        before = self._before(call, (args, kwargs))
        here.inside = True  # what the function calls is part of it
        try:
            result = function(*args, **kwargs)
        finally:
            here.inside = False
        self._attempt(record, lambda: self._session.end_call(call, args, kwargs, result))
        self._watch(call, before, result)
        return result

    # ---- modules

    def watch_module(self, module: Any, name: str) -> None:
        self._modules[id(module)] = (module, name)

    def watches_module(self, module: object) -> bool:
        return id(module) in self._modules

    def pause_module(self, module: object) -> None:
        self._modules.pop(id(module), None)

    def forget_modules(self) -> None:
        self._modules.clear()

    def place_parameters(self, module: object, placements: dict[str, Any]) -> None:
        """Nothing: where the shards of FSDP lie is not recorded."""

    def note_known(self, tensors: list[Any]) -> None:
        """Nothing: see DumpOptions."""

    def module_call(self, original: Any, with_hooks: Any) -> Any:
        from torch.nn.modules import module as of_torch

        everywhere: list[Any] = [
            getattr(of_torch, f"_global{name}", {}) for name in ("_backward_hooks", "_backward_pre_hooks",
            "_forward_hooks", "_forward_pre_hooks")
        ]  # fmt: skip

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if id(module) not in self._modules:
                return original(module, *args, **kwargs)
            has_hooks = any(everywhere) or any(getattr(module, name, True) for name in _OWN_HOOKS)
            if has_hooks or torch._C._get_tracing_state() is not None:
                return with_hooks(original, (module, *args), kwargs)
            self.before_module(module, args)
            result = None
            try:
                result = module.forward(*args, **kwargs)
            finally:
                self.after_module(module, args, kwargs, result)
            return result

        return call

    def before_module(self, module: Any, args: tuple[Any, ...]) -> None:
        known = self._modules.get(id(module))
        if known is None:
            return
        name = f"{known[1]}.forward.{self._number(known[1])}"
        if is_inside() or not self._session.is_collecting:
            return
        again = _is_repeated()
        call = self._attempt(name, lambda: self._session.begin_module(name, again))
        if call is not None:
            self._open.append((module, call, self._before(call, args)))

    def after_module(self, module: Any, args: Any, *given: Any) -> None:
        """given: keywords and result; no result: the call raised."""
        kwargs, result = (*given, None, None)[:2] if len(given) > 1 else ({}, None)
        while self._open:
            opened, call, before = self._open.pop()
            if opened is not module:
                continue  # left by an exception
            if result is None:
                self._attempt(call.name, functools.partial(self._session.fail_module, call))
            else:
                self._end_module(call, before, module, args, kwargs or {}, result)
            return

    def _end_module(
        self, call: core.DumpCall, before: Any, module: Any, args: Any, kwargs: Any, result: Any
    ) -> None:
        parameters = {name: one for name, one in module._parameters.items() if one is not None}

        def end() -> None:
            self._session.end_module(call, tuple(args), kwargs, result, parameters)
            if not call.watches_backward:
                return
            wanting = {name: one for name, one in parameters.items() if one.requires_grad}
            fills = self._session.watch_parameters(call, list(wanting))
            for parameter, fill in zip(wanting.values(), fills):
                self._handles.append(parameter.register_hook(self._filling(call.name, fill)))

        self._attempt(call.name, end)
        self._watch(call, before, result)

    def open_phase(self, name: str) -> None:
        self._session.open_phase(name)

    def close_phase(self, name: str) -> None:
        self._session.close_phase(name)

    # ---- PrecisionDebugger.save

    def save(self, value: Any, name: str, with_gradients: bool = True) -> None:
        record = self._attempt(name, lambda: self._session.save(value, name))
        if not with_gradients or record is None:
            return

        def watch() -> None:
            for tensor, fill in self._session.save_gradients(value, record):
                if tensor.requires_grad:
                    self._handles.append(tensor.register_hook(self._filling(record, fill)))

        self._attempt(record, watch)

    # ---- the work

    def _number(self, callee: str) -> int:
        number = self._counts[callee]
        self._counts[callee] = number + 1
        return number

    def _attempt(self, record: str, work: Callable[[], T]) -> T | None:
        """Work of ours, whose own calls are not recorded."""
        outer = is_inside()
        here.inside = True
        try:
            with torch._C.DisableTorchFunction():
                return work()
        except Exception as error:
            self._session.note_fault(record, f"{type(error).__name__}: {error}")
            return None
        finally:
            here.inside = outer

    def _filling(self, record: str, fill: Callable[[Any], None]) -> Callable[[Any], None]:
        def take(gradient: Any) -> None:
            self._attempt(record, lambda: fill(gradient))

        return take

    def _before(self, call: core.DumpCall, values: Any) -> BackwardOfCall | None:
        if not call.watches_backward or not torch.is_grad_enabled():
            return None

        def prepare() -> BackwardOfCall:
            inputs = [tensor for tensor in tensors_of(values) if tensor.requires_grad]
            return BackwardOfCall(inputs, self._newest, _sum, _edge_of, id, takes_returned=True)

        return self._attempt(call.name, prepare)

    def _watch(self, call: core.DumpCall, before: BackwardOfCall | None, result: Any) -> None:
        if before is None:
            return

        def done(of_outputs: Sequence[Any], of_inputs: Sequence[Any]) -> None:
            self._attempt(
                call.name, lambda: self._session.write_backward(call, tuple(of_outputs), tuple(of_inputs))
            )

        def watch() -> None:
            outputs = list(tensors_of(result))
            nodes = [edge[0] for tensor in outputs if (edge := _edge_of(tensor)) is not None]
            self._newest = max([self._newest, *map(number_of, nodes)])
            finish = before.watch(outputs, done) if call.watches_backward else None
            if finish is not None:
                self._unfinished.append(finish)

        self._attempt(call.name, watch)


def _edge_of(tensor: Any) -> tuple[Any, int] | None:
    if not tensor.requires_grad:
        return None
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    with torch.enable_grad():  # a leaf: its node is behind that of any call
        following = tensor.view_as(tensor).grad_fn.next_functions
    edge: tuple[Any, int] = following[0]
    return edge


def _sum(a: Any, b: Any) -> Any:
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return torch.add(a, b)


def _is_repeated() -> bool:
    """Whether a backward runs on this thread: activation checkpointing makes calls again there."""
    return bool(torch._C._current_graph_task_id() != -1)
