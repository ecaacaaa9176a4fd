# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks around every module call of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msprobe.hooks.compiled_regions import OffInRegions
from msprobe.hooks.functions import CodeExchange

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

    from msprobe.hooks.functions import Removable


class ModuleHooks(OffInRegions):
    """Torch's global hooks. Hooks on single modules would be seen by code that looks for them, as
    nn.TransformerEncoderLayer does to choose a fast path.
    """

    def __init__(
        self,
        before: Callable[[Any, Any], None],
        after: Callable[..., None],
        settled: Callable[[Any, Any], None] | None = None,
    ) -> None:
        """settled(module, result): what a call has returned behind the hooks of the module itself, which may
        have made something else of what `after` saw; None: it raised. Only by way of ModuleCalls.
        """
        self._before = before
        self._after = after
        self.settled = settled
        self._handles: list[Removable] = []

    def put(self) -> None:
        from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, with_kwargs=True, always_call=True),
        ]

    def take(self) -> None:
        if not self._handles:
            return
        from torch.nn.modules import module

        # torch's handle takes its hook off, and forgets this dictionary.
        with_kwargs: Any = getattr(module, "_global_forward_hooks_with_kwargs", {})
        for handle in self._handles:
            handle.remove()
            with_kwargs.pop(getattr(handle, "id", None), None)
        self._handles = []


class ModuleCalls:
    """Every module call of the process goes to `make_call(original, with_hooks)` instead of to
    nn.Module._call_impl.

    That calls modules without hooks itself, which costs a third of what torch's hooks do. Calls of others it
    hands to `with_hooks(original, args, kwargs)`: for as long as they take, torch's hooks tell of them and of
    what they call, in the order that torch has for hooks.
    """

    def __init__(self, hooks: ModuleHooks, make_call: Callable[[Any, Any], Any]) -> None:
        from torch import nn

        self._hooks = hooks
        self._inside = 0  # calls that torch's hooks tell of, on all threads
        self._exchange = CodeExchange(
            cast("types.FunctionType", nn.Module._call_impl),
            lambda original: make_call(original, self._call_with_hooks),
        )

    def install(self) -> None:
        self._exchange.install()
        if self._inside > 0:
            self._hooks.install()

    def remove(self) -> None:
        self._hooks.remove()
        self._exchange.remove()

    def _call_with_hooks(
        self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self._inside += 1
        if self._inside == 1:
            self._hooks.install()
        result = None
        try:
            result = original(*args, **kwargs)
        finally:
            self._inside -= 1
            if self._inside == 0:
                self._hooks.remove()
            if self._hooks.settled is not None:
                self._hooks.settled(args[0], result)
        return result
