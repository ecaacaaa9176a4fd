# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Takes calls of MindSpore's functions, Primitives and Cells to where they are observed."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.hooks.api_list import ListedApi
from msprobe.hooks.functions import AttributeExchange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from msprobe.frameworks.port import Observer, TrainingWatcher
    from msprobe.hooks.functions import Exchange, Removable

# Beside this file, so that a team can add its own functions to it.
_FILE = Path(__file__).with_name("api_list.json")
# Where the class is that runs what ms.jit compiled, by version.
_EXECUTORS = (
    ("mindspore.graph.api", "_JitExecutor"),
    ("mindspore.common.api", "_JitExecutor"),
    ("mindspore.common.api", "_MindsporeFunctionExecutor"),
)


def _groups() -> list[dict[str, Any]]:
    """The list: `home`, `prefix` and `names` of each module that has functions."""
    sets: list[dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))["sets"]
    return sets


def listed_functions() -> Iterator[ListedApi]:
    """MindSpore's, that exist here."""
    for group in _groups():
        home = _home(group["home"])
        for attribute in group["names"] if home is not None else ():
            function = getattr(home, attribute, None)
            if callable(function):
                yield ListedApi(f"{group['prefix']}.{attribute}", home, attribute, function)


def function_exchanges(observer: Observer, functions: Iterable[ListedApi]) -> Iterator[Exchange]:
    for one in functions:
        original = inspect.getattr_static(one.owner, one.attribute, None)
        # What belongs to a class alone has no tensor whose method it is.
        if callable(original) and not isinstance(original, (staticmethod, classmethod, type)):
            function = _function(observer, one.name, original, one.distributed)
            yield AttributeExchange(one.owner, one.attribute, function)


def path_of(callee: str) -> str | None:
    """Of a function of the list: "mindspore.mint.add" of "Mint.add". None: it is not in the list."""
    prefix, _, name = callee.partition(".")
    for group in _groups():
        if group["prefix"] == prefix and name in group["names"]:
            return f"{group['home']}.{name}"
    return None


def function_named(callee: str) -> Callable[..., Any] | None:
    """Of the list; None: there is none here."""
    home, _, name = (path_of(callee) or "").rpartition(".")
    found = getattr(_home(home), name, None) if home else None
    return found if callable(found) else None


def function_exchange(observer: Observer, module: Any, api: str, name: str) -> Exchange:
    return AttributeExchange(module, api, _function(observer, name, getattr(module, api), False))


def _home(path: str) -> Any:
    module, _, attribute = path.rpartition(".")
    return sys.modules.get(path) or getattr(sys.modules.get(module), attribute, None)


def _function(observer: Observer, name: str, original: Any, distributed: bool) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return observer.function_call(name, original, args, kwargs, distributed=distributed)

    return functools.update_wrapper(call, original, updated=())


class PrimitiveExchange:
    """Calls of Primitives that Cells hold as attributes: each gets a class of its own for the time, as its
    call is looked up there.
    """

    def __init__(self, observer: Observer, cells: Iterable[Any], primitive: type) -> None:
        self._observer = observer
        self._held: dict[int, tuple[Any, type, type]] = {}
        for cell in cells:
            for attribute, value in vars(cell).items():
                if isinstance(value, primitive) and id(value) not in self._held:
                    own = type(value)
                    self._held[id(value)] = (value, own, self._observed(own, f"{attribute}.{own.__name__}"))

    def _observed(self, own: Any, name: str) -> type:
        observer, full = self._observer, f"Primitive.{name}"

        def call(this: Any, *args: Any, **kwargs: Any) -> Any:
            return observer.primitive_call(full, functools.partial(own.__call__, this), args, kwargs)

        return type(own.__name__, (own,), {"__call__": call, "__module__": own.__module__})

    def install(self) -> None:
        for value, _, observed in self._held.values():
            value.__class__ = observed

    def remove(self) -> None:
        for value, own, observed in self._held.values():
            if type(value) is observed:
                value.__class__ = own


def cell_exchange(observer: Observer, cell: type) -> Exchange:
    """Of the calls of every Cell."""
    original: Any = cell.__call__

    @functools.wraps(original)
    def call(this: Any, *args: Any, **kwargs: Any) -> Any:
        return observer.module_call(this, functools.partial(original, this), args, kwargs)

    return AttributeExchange(cell, "__call__", call)


class OptimizerCalls:
    """Calls before(optimizer) at each call of a Cell that is one."""

    def __init__(self, cell: type, is_one: Callable[[Any], bool], before: Callable[[Any], None]) -> None:
        original: Any = cell.__call__

        @functools.wraps(original)
        def call(this: Any, *args: Any, **kwargs: Any) -> Any:
            if is_one(this):
                before(this)
            return original(this, *args, **kwargs)

        self._exchange = AttributeExchange(cell, "__call__", call)

    def install(self) -> None:
        self._exchange.install()

    def remove(self) -> None:
        self._exchange.remove()


class TrainingCalls:
    """Tells a watcher of the calls of Cells, and of those that are optimizers."""

    def __init__(self, cell: type, is_optimizer: Callable[[Any], bool], watcher: TrainingWatcher) -> None:
        original: Any = cell.__call__

        @functools.wraps(original)
        def call(this: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_optimizer(this):
                return watcher.module_call(this, functools.partial(original, this), args, kwargs)
            watcher.optimizer_steps(this)
            result = original(this, *args, **kwargs)
            watcher.optimizer_stepped(this)
            return result

        self._exchange = AttributeExchange(cell, "__call__", call)

    def install(self) -> None:
        self._exchange.install()

    def remove(self) -> None:
        self._exchange.remove()


def differentiated_calls(watcher: TrainingWatcher) -> Exchange:
    """Of functions and Cells that value_and_grad(), grad() and GradOperation differentiate."""
    module = importlib.import_module("mindspore.ops.composite.base")
    name = "_pynative_func_grad_forward"
    original: Any = getattr(module, name)

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        return watcher.differentiated(functools.partial(original, function), args, kwargs)

    return AttributeExchange(module, name, functools.update_wrapper(call, original, updated=()))


class OffWhileCompiled:
    """Takes `others` back while a function that ms.jit compiled runs: its source is read anew, and names in
    it have to lead to what MindSpore knows. The call itself is observed as `Jit.{name}`.
    """

    def __init__(self, others: list[Exchange], observer: Observer) -> None:
        self._others = others
        self._observer = observer
        self._exchanges: list[AttributeExchange] = []
        self._running = False

    def install(self) -> None:
        if not self._exchanges:
            classes = {id(c): c for c in (_home(f"{m}.{n}") for m, n in _EXECUTORS) if c is not None}
            self._exchanges = [AttributeExchange(c, "__call__", self._around(c)) for c in classes.values()]
        for exchange in self._exchanges:
            exchange.install()

    def remove(self) -> None:
        for exchange in self._exchanges:
            exchange.remove()

    def _around(self, executor: Any) -> Callable[..., Any]:
        original = executor.__call__

        @functools.wraps(original)
        def call(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self._running:
                return original(this, *args, **kwargs)
            name = getattr(getattr(this, "fn", None), "__name__", "") or "JitFunction"
            run = functools.partial(self._run, original, this)
            if name == "construct":  # of a Cell, which is observed itself
                return run(*args, **kwargs)
            return self._observer.function_call(f"Jit.{name}", run, args, kwargs)

        return call

    def _run(self, original: Any, this: Any, *args: Any, **kwargs: Any) -> Any:
        self._running = True
        for other in reversed(self._others):
            other.remove()
        try:
            return original(this, *args, **kwargs)
        finally:
            for other in self._others:
                other.install()
            self._running = False


class OptimizerSteps:
    """Calls before(gradients) at each step of an optimizer, by a hook of its own: its construct is compiled
    and read anew, where it has the decorator ms.jit.
    """

    def __init__(self, optimizer: Any, before: Callable[[Any], None]) -> None:
        self._optimizer = optimizer
        self._before = before
        self._handle: Removable | None = None

    def install(self) -> None:
        self._handle = self._optimizer.register_forward_pre_hook(self._step)

    def remove(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _step(self, _: Any, inputs: Any) -> None:
        self._before(inputs[0] if inputs else ())
