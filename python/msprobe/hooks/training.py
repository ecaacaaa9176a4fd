# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks around the parts of a training step: the model, backward, clipping, the optimizer."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from msprobe.hooks.functions import AttributeExchange, CodeExchange

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from torch import nn

    from msprobe.hooks.optimizer import Removable

    # observer(original, args, kwargs) calls the original once and returns its result
    Observer = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class CallWatch:
    """Takes calls of a Python function to an observer, whatever name it was imported under.

    The code is exchanged anew at each install(), so watches and exchanges of one function can stand on top of
    each other as long as the last one installed is the first one removed.
    """

    def __init__(self, function: types.FunctionType, observer: Observer) -> None:
        self._function = function
        self._observer = observer
        self._exchange: CodeExchange | None = None

    def install(self) -> None:
        self._exchange = CodeExchange(self._function, self._around)
        self._exchange.install()
        # A frame of a file without source is none of the program's: recorded call stacks leave it out.
        self._function.__code__ = self._function.__code__.replace(co_filename="<msprobe>")

    def remove(self) -> None:
        if self._exchange is not None:
            self._exchange.remove()
            self._exchange = None

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        original.__dict__.update(self._function.__dict__)  # a decorated function has its signature there

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._observer(original, args, kwargs)

        return call


class ModelCalls:
    """Calls `before(model, args, kwargs)` at each call of one of the models, given by their id().

    The call operator of all modules is exchanged. A hook of torch would be seen: those on a module by
    nn.TransformerEncoderLayer and by whoever copies or saves the model, the global ones by torch.compile,
    which warns of them; and the global ones that run before a call do not get keyword arguments.
    """

    def __init__(self, models: Container[int], before: Callable[[Any, Any, Any], None]) -> None:
        self._models = models
        self._before = before
        self._exchange: AttributeExchange | None = None

    def install(self) -> None:
        from torch import nn

        self._exchange = AttributeExchange(nn.Module, "__call__", self._around(nn.Module.__call__))
        self._exchange.install()

    def remove(self) -> None:
        if self._exchange is not None:
            self._exchange.remove()
            self._exchange = None

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        models, before = self._models, self._before

        def call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            if id(module) in models:
                before(module, args, kwargs)
            return original(module, *args, **kwargs)

        return call


def watch_backward(observer: Observer) -> list[CallWatch]:
    """torch.autograd.backward, which Tensor.backward calls, too."""
    import torch

    return _watches([torch.autograd.backward], observer)


def watch_clipping(observer: Observer) -> list[CallWatch]:
    """The functions of torch.nn.utils that clip gradients; the old name clip_grad_norm calls one of them."""
    import torch

    return _watches([torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_], observer)


def watch_scaler(observer: Observer) -> list[CallWatch]:
    """GradScaler.step of torch.amp (torch 2.3 and newer), or of torch.cuda.amp."""
    import torch

    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    return _watches([scaler.step], observer)


def _watches(functions: Iterable[Any], observer: Observer) -> list[CallWatch]:
    return [CallWatch(item, observer) for item in functions if isinstance(item, types.FunctionType)]


class ArrivedGradients:
    """Calls `arrived(name, parameter)` each time a gradient has been added to `parameter.grad`.

    DistributedDataParallel takes the gradient from there afterwards, so this is the moment before the
    reduction.
    """

    def __init__(
        self, parameters: Iterable[tuple[str, nn.Parameter]], arrived: Callable[[str, Any], None]
    ) -> None:
        self._parameters = list(parameters)
        self._arrived = arrived
        self._handles: list[Removable] = []

    def install(self) -> None:
        for name, parameter in self._parameters:
            register: Any = parameter.register_post_accumulate_grad_hook
            self._handles.append(register(functools.partial(self._arrived, name)))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
