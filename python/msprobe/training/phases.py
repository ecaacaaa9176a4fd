# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hooks around the parts of a training step: the model, backward, clipping, the optimizer."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any, ClassVar, cast

from msprobe.hooks.compiled_regions import untraced
from msprobe.hooks.functions import CodeExchange
from msprobe.training.graph_capture import captures_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from torch import nn

    from msprobe.hooks.functions import Removable

    # observer(original, args, kwargs) calls the original once and returns its result
    Observer = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class _Lead:
    """Code that leads calls of a Python function to an observer that comes and goes.

    It is made once for what the function was before: recorded call stacks are known by the code in them, and
    would be new ones in every step.
    """

    _made: ClassVar[dict[tuple[types.FunctionType, types.CodeType], _Lead]] = {}

    def __init__(self, function: types.FunctionType) -> None:
        self.observer: Observer | None = None
        self._function = function
        # A frame of a file without source is none of the program's: recorded call stacks leave it out.
        self._exchange = CodeExchange(function, self._around, seen_as="<msprobe>")

    @classmethod
    def of(cls, function: types.FunctionType) -> _Lead:
        """The one for what `function` is now."""
        key = function, function.__code__
        if key not in cls._made:
            cls._made[key] = cls(function)
        return cls._made[key]

    def install(self, observer: Observer) -> None:
        self.observer = observer
        self._exchange.install()

    def remove(self) -> None:
        self._exchange.remove()
        self.observer = None

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        original.__dict__.update(self._function.__dict__)  # a decorated function has its signature there

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.observer is None:  # it went while this was called
                return original(*args, **kwargs)
            return self.observer(original, args, kwargs)

        return call


class CallWatch:
    """Takes calls of a Python function to an observer, whatever name it was imported under.

    Watches and exchanges of one function can stand on top of each other as long as the last one installed is
    the first one removed.
    """

    def __init__(self, function: types.FunctionType, observer: Observer) -> None:
        self._function = function
        self._observer = observer
        self._lead: _Lead | None = None

    def install(self) -> None:
        self._lead = _Lead.of(self._function)
        self._lead.install(self._observer)

    def remove(self) -> None:
        if self._lead is not None:
            self._lead.remove()
            self._lead = None


def module_call_operator() -> types.FunctionType:
    """What __call__ of nn.Module is, whatever stands there at the moment."""
    from torch import nn

    return cast("types.FunctionType", getattr(nn.Module, "_wrapped_call_impl", nn.Module._call_impl))


class ModelCalls:
    """Calls `before(model, args, kwargs)` at each call of one of the models, given by their id().

    The code behind the call operator of all modules is exchanged. A hook of torch would be seen: those on a
    module by nn.TransformerEncoderLayer and by whoever copies or saves the model, the global ones by
    torch.compile, which warns of them; and the global ones that run before a call do not get keyword
    arguments. Another value for the operator itself would be looked up anew for each of the thousands of
    classes of modules.
    """

    def __init__(self, models: Container[int], before: Callable[[Any, Any, Any], None]) -> None:
        self._models = models
        self._before = before
        self._watch = CallWatch(module_call_operator(), self._call)

    def install(self) -> None:
        self._watch.install()

    def remove(self) -> None:
        self._watch.remove()

    def _call(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and id(args[0]) in self._models and not captures_graph():
            self._before(args[0], args[1:], kwargs)
        return original(*args, **kwargs)


def watch_backward(
    after: Callable[[tuple[Any, ...], dict[str, Any]], None], failed: Callable[[], None] = lambda: None
) -> list[CallWatch]:
    """Calls `after(args, kwargs)` with the arguments of torch.autograd.backward, which Tensor.backward calls,
    too, when it has returned; not for one inside of another, as modes and activation checkpointing make them.
    Calls `failed()` when it has raised.
    """
    import torch

    return _outermost([torch.autograd.backward], after, failed)


def watch_gradients(after: Callable[[tuple[Any, ...], dict[str, Any]], None]) -> list[CallWatch]:
    """As watch_backward(), and for torch.autograd.grad, too."""
    import torch

    return _outermost([torch.autograd.backward, torch.autograd.grad], after)


def watch_returned_gradients(after: Callable[[tuple[Any, ...]], None]) -> list[CallWatch]:
    """Calls `after(gradients)` with what torch.autograd.grad returns, None among them."""
    import torch

    def observe(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = original(*args, **kwargs)
        after(result)
        return result

    return _watches([torch.autograd.grad], observe)


def _outermost(
    functions: Iterable[Any],
    after: Callable[[tuple[Any, ...], dict[str, Any]], None],
    failed: Callable[[], None] = lambda: None,
) -> list[CallWatch]:
    depth = 0

    def observe(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # Before the original nothing of torch may be asked: a mode that lets the next question pass, which is
        # one of the original, would let ours pass.
        nonlocal depth
        depth += 1
        try:
            result = original(*args, **kwargs)
        except BaseException:
            depth -= 1
            if depth == 0:
                failed()
            raise
        depth -= 1
        if depth == 0:
            after(args, kwargs)
        return result

    return _watches(functions, observe)


def inside_of_backward() -> bool:
    """Whether this thread computes gradients: calls that are made now are made again, by checkpointing."""
    import torch

    running: Any = getattr(torch._C, "_current_graph_task_id", None)
    return running is not None and running() != -1


def watch_clipping(observer: Observer) -> list[CallWatch]:
    """The functions of torch.nn.utils that clip gradients. One of them calls another, which is seen, too."""
    import torch

    names = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")  # the last: torch 2.6 and newer
    return _watches([getattr(torch.nn.utils, name, None) for name in names], observer)


def watch_scaler(observer: Observer) -> list[CallWatch]:
    """GradScaler.step of torch.amp (torch 2.3 and newer), or of torch.cuda.amp."""
    import torch

    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    return _watches([scaler.step], observer)


def _watches(functions: Iterable[Any], observer: Observer) -> list[CallWatch]:
    def outside_of_graphs(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return original(*args, **kwargs) if captures_graph() else observer(original, args, kwargs)

    return [CallWatch(item, outside_of_graphs) for item in functions if isinstance(item, types.FunctionType)]


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
            self._handles.append(register(untraced(functools.partial(self._tell, name))))

    def _tell(self, name: str, parameter: Any) -> None:
        if not captures_graph():
            self._arrived(name, parameter)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
