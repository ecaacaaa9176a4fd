# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks that follow a training from outside: calls of whole models, the end of optimizer steps, backward."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING, Any

from msprobe.hooks.functions import AttributeExchange, CodeExchange
from msprobe.training.graph_capture import captures_graph
from msprobe.training.phases import module_call_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_calls_of_ours = threading.local()


@contextlib.contextmanager
def calls_of_ours() -> Iterator[None]:
    """Calls of modules that this thread makes meanwhile are none of the training's: nobody is told."""
    before = getattr(_calls_of_ours, "on", False)
    _calls_of_ours.on = True
    try:
        yield
    finally:
        _calls_of_ours.on = before


class OutermostCalls:
    """Calls `before(module, arguments)` at each module call that runs inside of no other module call of its
    thread, and what it returns, if anything, with the result of the call.

    Hooks that `before` installs see the call, too. The code behind the call operator of all modules is
    exchanged, for the reasons of training.phases.ModelCalls; those installed later must be removed before
    this one. Another value for the operator would be what torch.compile() is given meanwhile.
    """

    def __init__(self, before: Callable[[Any, list[Any]], Callable[[Any], None] | None]) -> None:
        self._before = before
        self._active = False
        self._inside = threading.local()
        self._exchange: CodeExchange | None = None

    @property
    def is_inside(self) -> bool:
        """Whether this thread is inside of such a call, or of one of ours."""
        return hasattr(self._inside, "call") or getattr(_calls_of_ours, "on", False)

    def install(self) -> None:
        self._active = True
        # Frames of a file without source are none of the program's: recorded call stacks leave them out.
        self._exchange = CodeExchange(module_call_operator(), self._around, seen_as="<msprobe>")
        self._exchange.install()

    def remove(self) -> None:
        self._active = False  # should somebody keep what was installed
        if self._exchange is not None:
            self._exchange.remove()
            self._exchange = None

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        operator = module_call_operator()
        inside = self._inside

        def call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            if self.is_inside or not self._active or captures_graph():
                return original(module, *args, **kwargs)
            inside.call = True
            try:
                known = CodeExchange.puts_on(operator)
                after = self._before(module, [*args, *kwargs.values()])
                # Where `before` has put something around us, that has to see the call, too; what was around
                # us already has seen it.
                seen_by_all = CodeExchange.puts_on(operator) == known
                result = (original if seen_by_all else operator)(module, *args, **kwargs)
                if after is not None and self._active:
                    after(result)
                return result
            finally:
                del inside.call

        return call


class FinishedSteps:
    """Calls `after(optimizer)` when a `step()` of a torch.optim.Optimizer has returned, with all its hooks,
    `before(optimizer)` before one that is given a closure, which calls the model inside of the step, and
    `made()` when one is constructed.

    Hooks of torch cannot do what this is for: torch walks over its hooks, and fails when one of them
    comes or goes meanwhile. Seen are optimizers of classes that exist at install(), and those made later. An
    optimizer whose own `step` was replaced before install(), as a scheduler does, is not seen.
    """

    def __init__(
        self,
        after: Callable[[Any], None],
        before: Callable[[Any], None] = lambda _: None,
        made: Callable[[], None] = lambda: None,
    ) -> None:
        self._after = after
        self._before = before
        self._made = made
        self._active = False
        self._exchanges: list[AttributeExchange] = []
        self._seen: set[type] = set()
        self._depth = 0

    def install(self) -> None:
        from torch.optim import Optimizer

        self._active = True
        for kind in _subclasses(Optimizer):
            self._watch(kind)
        construct: Any = Optimizer.__init__

        @functools.wraps(construct)
        def constructed(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            construct(optimizer, *args, **kwargs)
            if self._active:
                self._watch(type(optimizer))
                self._made()

        self._exchange(AttributeExchange(Optimizer, "__init__", constructed))

    def remove(self) -> None:
        self._active = False
        for exchange in reversed(self._exchanges):
            exchange.remove()
        self._exchanges = []
        self._seen = set()

    def _watch(self, kind: type) -> None:
        """The step as torch has wrapped it, which it does at the construction of the first object: what stood
        below torch's wrapper would be inside of its hooks, and could not be taken back.
        """
        for one in kind.__mro__:
            step = vars(one).get("step")
            if one not in self._seen and getattr(step, "hooked", False):
                self._seen.add(one)
                self._exchange(AttributeExchange(one, "step", self._around(step)))

    def _exchange(self, exchange: AttributeExchange) -> None:
        exchange.install()
        self._exchanges.append(exchange)

    def _around(self, original: Any) -> Callable[..., Any]:
        @functools.wraps(original)  # with `hooked`, by which torch knows that its own wrapper is there
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if captures_graph():
                return original(optimizer, *args, **kwargs)
            if self._active and self._depth == 0 and callable(args[0] if args else kwargs.get("closure")):
                self._before(optimizer)
            self._depth += 1
            try:
                result = original(optimizer, *args, **kwargs)
            finally:
                self._depth -= 1
            if self._active and self._depth == 0:
                self._after(optimizer)
            return result

        return step


def _subclasses(kind: type) -> Iterator[type]:
    children: list[type] = kind.__subclasses__()
    for child in children:
        yield child
        yield from _subclasses(child)
