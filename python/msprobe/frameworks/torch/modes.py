# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A mode of torch that sees the calls of listed functions; on torch's stack it lies below all others."""

from __future__ import annotations

import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable

_stack: Any = torch._C
here = threading.local()  # inside: of an observed call, or of work of ours


def is_inside() -> bool:
    return getattr(here, "inside", False)


class SeenCalls(TorchFunctionMode):
    """find(function) gives its name in records, or None; call(name, function, args, kwargs) makes the call.
    is_inside(): of an observed call, whose own calls are not observed.
    """

    def __init__(
        self,
        find: Callable[[Any], str | None],
        call: Callable[..., Any],
        is_inside: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._find = find
        self._call = call
        self._is_inside = is_inside
        self._running: Any = None  # a function written in Python that was let through

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = self._find(func)
        if name is not None:
            return self._call(name, func, args, kwargs or {})
        if not isinstance(func, FunctionType) or func is self._running or self._is_inside():
            return func(*args, **(kwargs or {}))
        return self._let_through(func, args, kwargs or {})

    def _let_through(self, function: FunctionType, args: Any, kwargs: Any) -> Any:
        """A function written in Python asks whether a mode is active, and then calls others. It gets "no" for
        that one question, and the mode sees the others.
        """
        names = function.__globals__
        questions = {name: names[name] for name in _QUESTIONS if name in names}

        def no(*_: object) -> bool:
            names.update(questions)
            return False

        outer, self._running = self._running, function
        names.update(dict.fromkeys(questions, no))
        push_mode(self)
        try:
            return function(*args, **kwargs)
        finally:
            names.update(questions)
            remove_mode(self)
            self._running = outer


_QUESTIONS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def _taken() -> list[Any]:
    """All modes of this thread, the topmost first; none is left."""
    return [_stack._pop_torch_function_stack() for _ in range(_stack._len_torch_function_stack())]


def _put(modes: list[Any]) -> None:
    for mode in reversed(modes):
        _stack._push_on_torch_function_stack(mode)


def push_mode(mode: Any) -> None:
    """At the bottom."""
    _put([*_taken(), mode])


def remove_mode(mode: Any) -> None:
    _put([known for known in _taken() if known is not mode])


def call_without_mode(function: Callable[..., Any], *args: Any) -> Any:
    """As if none of our modes were there."""
    modes = _taken()
    _put([mode for mode in modes if not isinstance(mode, SeenCalls)])
    outer = is_inside()
    here.inside = True
    try:
        return function(*args)
    finally:
        here.inside = outer
        _taken()
        _put(modes)


class NoModes:
    """Inside, no mode and no subclass of the program sees what is asked of torch."""

    def __init__(self) -> None:
        self._guards: list[Any] = []
        self._outer = False

    def __enter__(self) -> None:
        self._outer = is_inside()
        here.inside = True
        self._guards = [torch._C.DisableTorchFunction()]
        if _stack._len_torch_dispatch_stack() > 0:
            from torch.utils._python_dispatch import _disable_current_modes

            self._guards.append(_disable_current_modes())
        for guard in self._guards:
            guard.__enter__()

    def __exit__(self, *_: object) -> None:
        for guard in reversed(self._guards):
            guard.__exit__(None, None, None)
        here.inside = self._outer
