# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of a framework behind a port, told to a session: names, numbers, and when gradients are there."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.frameworks.port import Backward, Port
    from msprobe.hooks.functions import Removable
    from msprobe.native import core

T = TypeVar("T")


class PortCalls:
    """The Observer of a recording. A fault of ours never reaches the training: it is noted."""

    def __init__(self, port: Port, session: core.DumpSession) -> None:
        self._port = port
        self._session = session
        self._names: dict[int, str] = {}  # of watched modules, by their identity
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._here = threading.local()
        self._newest = -1  # number of the newest node of the graph that is known
        self._handles: list[Removable] = []
        self._unfinished: list[Callable[[], None]] = []
        self._root: tuple[Any, int, int] = (None, 0, 0)
        self._calls_of_root = 0

    def watch_module(self, module: Any, name: str) -> None:
        self._names[id(module)] = name

    def only_calls(self, root: Any, first: int, last: int) -> None:
        """Of the model's own calls only these, counted from now on; `root` None: all again."""
        self._root = (root, first, last)
        self._calls_of_root = 0

    def end_step(self) -> None:
        """Gradients that have not come do not come any more; numbers begin at 0 again."""
        for finish in self._unfinished:
            self._attempt("", finish)
        for handle in self._handles:
            handle.remove()
        self._unfinished, self._handles, self._newest = [], [], -1
        self._counts.clear()

    # ---- Observer

    def function_call(
        self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, *, distributed: bool = False
    ) -> Any:
        return self._call(name, function, args, kwargs, distributed=distributed)

    def primitive_call(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return self._call(name, function, args, kwargs, is_primitive=True)

    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if module is self._root[0] and not self._is_inside():
            return self._root_call(function, args, kwargs)
        callee = self._names.get(id(module))
        if callee is None or self._is_inside() or not self._session.is_collecting:
            return function(*args, **kwargs)
        name = f"{callee}.forward.{self._number(callee)}"
        call = self._attempt(name, lambda: self._session.begin_module(name))
        if call is None:
            return function(*args, **kwargs)
        before = self._before(call, args, kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException:
            self._attempt(name, lambda: self._session.fail_module(call))
            raise
        self._attempt(name, lambda: self._end_module(call, module, args, kwargs, result))
        self._watch(call, before, result)
        return result

    def _root_call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        _, first, last = self._root
        number, self._calls_of_root = self._calls_of_root, self._calls_of_root + 1
        if number == first:
            self._session.set_collecting(True)
        try:
            return function(*args, **kwargs)
        finally:
            if number == last:
                self._session.set_collecting(False)

    # ---- values that a script saves

    def save(self, value: Any, name: str, with_gradients: bool) -> None:
        record = self._attempt(name, lambda: self._session.save(value, name))
        if with_gradients and record is not None:
            self._attempt(record, lambda: self._save_gradients(value, record))

    def _save_gradients(self, value: Any, record: str) -> None:
        for tensor, fill in self._session.save_gradients(value, record):
            if self._port.wants_gradient(tensor):
                self._handles.append(self._port.on_gradient(tensor, self._filling(record, fill)))

    # ---- the work

    def _call(
        self,
        callee: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        *,
        distributed: bool = False,
        is_primitive: bool = False,
    ) -> Any:
        if self._is_inside() or not self._session.is_collecting:
            return function(*args, **kwargs)
        name = f"{callee}.{self._number(callee)}.forward"
        call = self._attempt(name, lambda: self._session.begin_call(name, args, kwargs, distributed))
        if call is None:
            return function(*args, **kwargs)
        before = self._before(call, args, kwargs)
        self._here.inside = True  # what the function calls is part of it
        try:
            result = function(*args, **kwargs)
        finally:
            self._here.inside = False
        self._attempt(name, lambda: self._session.end_call(call, args, kwargs, result))
        self._watch(call, before, result, is_primitive)
        return result

    def _number(self, callee: str) -> int:
        number = self._counts[callee]
        self._counts[callee] = number + 1
        return number

    def _is_inside(self) -> bool:
        return getattr(self._here, "inside", False)

    def _attempt(self, record: str, work: Callable[[], T]) -> T | None:
        """Work of ours, whose own calls are not recorded."""
        outer = self._is_inside()
        self._here.inside = True
        try:
            return work()
        except Exception as error:
            self._session.note_fault(record, f"{type(error).__name__}: {error}")
            return None
        finally:
            self._here.inside = outer

    def _end_module(self, call: core.DumpCall, module: Any, args: Any, kwargs: Any, result: Any) -> None:
        parameters = self._port.parameters(module)
        self._session.end_module(call, args, kwargs, result, parameters)
        if not call.watches_backward:
            return
        wanting = {name: one for name, one in parameters.items() if self._port.wants_gradient(one)}
        fills = self._session.watch_parameters(call, list(wanting))
        for parameter, fill in zip(wanting.values(), fills):
            self._handles.append(self._port.on_gradient(parameter, self._filling(call.name, fill)))

    def _filling(self, record: str, fill: Callable[[Any], None]) -> Callable[[Any], None]:
        def take(gradient: Any) -> None:
            self._attempt(record, lambda: fill(gradient))

        return take

    def _before(self, call: core.DumpCall, args: Any, kwargs: Any) -> Backward | None:
        # Whether the gradients of a module are wanted is known at its end only, if a list or scope decides.
        if not call.watches_backward:
            return None

        def prepare() -> Backward | None:
            inputs = self._port.tensors_of((args, kwargs))
            return self._port.before_backward(inputs, self._newest)

        return self._attempt(call.name, prepare)

    def _watch(
        self,
        call: core.DumpCall,
        before: Backward | None,
        result: Any,
        is_primitive: bool = False,
    ) -> None:
        if before is None:
            return

        def done(of_outputs: Sequence[Any], of_inputs: Sequence[Any]) -> None:
            if is_primitive:  # as they arrive: the last argument first, without those that get none
                of_outputs = [gradient for gradient in of_outputs if gradient is not None]
                of_inputs = [gradient for gradient in reversed(of_inputs) if gradient is not None]
            self._attempt(
                call.name,
                lambda: self._session.write_backward(call, tuple(of_outputs), tuple(of_inputs)),
            )

        def watch() -> None:
            outputs = self._port.tensors_of(result)
            self._newest = max(self._newest, self._port.newest_node(outputs))
            finish = before.watch(outputs, done) if call.watches_backward else None
            if finish is not None:
                self._unfinished.append(finish)

        self._attempt(call.name, watch)
