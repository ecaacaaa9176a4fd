# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The steps of one optimizer, of any class."""

from __future__ import annotations

import functools
import types
import weakref
from typing import TYPE_CHECKING, Any

from msprobe.hooks.compiled_regions import untraced
from msprobe.training.graph_capture import captures_graph

if TYPE_CHECKING:
    from collections.abc import Callable


class OptimizerStep:
    """Calls `before()` when the gradients of a step are complete and `after()` when `optimizer.step()` has
    returned.

    The method of this one object is exchanged, so optimizers of the same class are not seen; hooks may come
    and go inside of the callbacks. With a closure, which computes the gradients inside of the step, `before`
    waits for its first evaluation. A step that raises has no `after`.
    A fused optimizer that a GradScaler calls although it found Inf makes no step: nothing is called.
    """

    def __init__(self, optimizer: Any, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._optimizer = weakref.ref(optimizer) if hasattr(optimizer, "__weakref__") else lambda: optimizer
        self._before = untraced(before)
        self._after = untraced(after)
        self._active = False
        self._own: Any = None  # what stood in the object's own dictionary before
        self._exchanged: Any = None

    def install(self) -> None:
        optimizer = self._optimizer()
        if optimizer is None or self._active:
            return
        self._active = True
        self._own = own = vars(optimizer).get("step")

        @functools.wraps(optimizer.step)  # with the marks that schedulers leave on it
        def step(self_: Any, *args: Any, **kwargs: Any) -> Any:
            # That of the class as it is now: a program may have put another one there.
            kind = type(self_)
            original = kind.step.__get__(self_, kind) if own is None else own
            if not self._active or captures_graph() or scaler_skips(optimizer_of()):
                return original(*args, **kwargs)
            return self._around(original, args, kwargs)

        optimizer_of = self._optimizer
        # A scheduler that is made later looks for the function behind the method.
        self._exchanged = types.MethodType(step, optimizer)
        optimizer.step = self._exchanged

    def remove(self) -> None:
        """Where somebody has put something else on top, ours stays below it and does nothing."""
        self._active = False
        optimizer = self._optimizer()
        if optimizer is None or vars(optimizer).get("step") is not self._exchanged:
            return
        if self._own is None:
            del optimizer.step
        else:
            optimizer.step = self._own

    def _around(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        begun = False

        def begin() -> None:
            nonlocal begun
            if not begun:
                begun = True
                self._before()

        closure = kwargs.get("closure", args[0] if args else None)
        if callable(closure):

            def evaluate(*given: Any, **named: Any) -> Any:
                result = closure(*given, **named)
                begin()
                return result

            if "closure" in kwargs:
                kwargs = {**kwargs, "closure": evaluate}
            else:
                args = (evaluate, *args[1:])
        else:
            begin()
        result = original(*args, **kwargs)
        begin()  # a closure that was never called
        if self._active:
            self._after()
        return result


def scaler_skips(optimizer: Any) -> bool:
    """Whether a GradScaler has told a fused optimizer to make no step."""
    import torch

    found = getattr(optimizer, "found_inf", None)
    return isinstance(found, torch.Tensor) and bool(found.item() != 0)
