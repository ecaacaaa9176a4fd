# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is hooked for a level, in one object that is installed at start() and gone after stop()."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from msprobe.hooks.functions import AttributeExchange, CodeExchange, Exchange, Hooks
from msprobe.hooks.listed_functions import function_exchanges
from msprobe.hooks.modules import ModuleCalls, ModuleHooks
from msprobe.training.optimizer import OptimizerUpdates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from msprobe._torch import DumpSession

_CLIPPING = (
    "clip_grad_norm_",
    "clip_grad_norm",
    "clip_grad_value_",
    "get_total_norm",
    "clip_grads_with_norm_",
)


def make_hooks(
    session: DumpSession, level: str, custom: Sequence[Exchange] = (), compiled: Sequence[Exchange] = ()
) -> Hooks:
    """The hooks of a level, with those of functions registered by the user and of compiled modules."""
    exchanges: list[Exchange] = []
    if level in ("L1", "mix"):
        exchanges += [*function_exchanges(session), *custom]
    if level in ("L0", "mix"):
        exchanges.append(module_calls(session))
    if level == "mix":
        exchanges += _phases(session)
    return Hooks([*compiled, *exchanges])


def module_calls(session: DumpSession) -> Exchange:
    """The calls of watched modules, other than compiled ones."""
    return ModuleCalls(ModuleHooks(session.before_module, session.after_module), session.module_call)


def compiled_modules(session: DumpSession, modules: Iterable[Any]) -> list[Exchange]:
    """Modules compiled by `module.compile()` run no hook: what they are called through is exchanged."""
    return [
        AttributeExchange(
            module, "_compiled_call_impl", _observed(session, module, module._compiled_call_impl)
        )
        for module in modules
        if getattr(module, "_compiled_call_impl", None) is not None
    ]


def _observed(session: DumpSession, module: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        session.before_module(module, args)
        try:
            result = compiled(*args, **kwargs)
        except Exception:
            session.after_module(module, args, None)
            raise
        session.after_module(module, args, kwargs, result)
        return result

    return call


def _phases(session: DumpSession) -> Iterator[Exchange]:
    yield OptimizerUpdates(
        lambda *_: session.open_phase("optimizer"), lambda _: session.close_phase("optimizer")
    )
    import torch

    clipping = _Phase(session, "clip_grad")
    for name in _CLIPPING:
        function = getattr(torch.nn.utils, name, None)
        if isinstance(function, types.FunctionType):
            yield CodeExchange(function, clipping.around)


class _Phase:
    """A part of a step that is made of functions, which may call one another: the outermost opens it."""

    def __init__(self, session: DumpSession, name: str) -> None:
        self._session = session
        self._name = name
        self._is_open = False

    def around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._is_open:
                return original(*args, **kwargs)
            self._is_open = True
            self._session.open_phase(self._name)
            try:
                return original(*args, **kwargs)
            finally:
                self._is_open = False
                self._session.close_phase(self._name)

        return call
