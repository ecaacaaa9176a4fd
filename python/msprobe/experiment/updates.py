# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tells that an optimizer is about to compute. One that is given a closure, as Lightning gives one, calls the
model and the backward pass inside of its step: there it is told behind the closure.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_listeners: list[Callable[[Any], None]] = []
_hooks: list[Any] = []


def watch() -> None:
    """From here on. To be called before a training begins: a listener that comes inside of a closure is told
    behind it, too.
    """
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    if not _hooks:
        _hooks.append(register_optimizer_step_pre_hook(_before_step))


def listen(call: Callable[[Any], None]) -> None:
    """call(optimizer), in the order of the listeners. Does nothing for what listens already."""
    watch()
    if call not in _listeners:
        _listeners.append(call)


def leave(call: Callable[[Any], None]) -> None:
    """Does nothing for what does not listen. The last one takes the watch with it."""
    if call in _listeners:
        _listeners.remove(call)
    while _hooks and not _listeners:
        _hooks.pop().remove()


def _before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
    if not callable(closure):
        _tell(optimizer)
        return None

    @functools.wraps(closure)
    def told(*given: Any, **named: Any) -> Any:
        result = closure(*given, **named)
        _tell(optimizer)
        return result

    if "closure" in kwargs:
        return args, {**kwargs, "closure": told}
    return (args[0], told, *args[2:]), kwargs


def _tell(optimizer: Any) -> None:
    import torch

    with torch.no_grad():
        for call in tuple(_listeners):
            call(optimizer)
