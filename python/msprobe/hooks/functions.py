# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Takes calls of torch's functions to where they are observed (docs/adr/0007).

Functions implemented in C are seen by a mode of torch; functions written in Python have their code exchanged,
so that every name they were imported under leads to the observer; operators whose own name the mode does not
tell get a callable of ours on torch.Tensor. The objects a script compares by identity stay the same.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

_TARGET = 0x6D7370726F6265  # stands for the target in the code below


@functools.cache
def _template(variables: tuple[str, ...]) -> types.CodeType:
    """Code that calls the target, of a function with these variables of an outer function.

    It names them: otherwise its frames would not hold their cells, and whoever asks such a frame for its
    locals (a debugger, a report of an exception) would crash Python.
    """
    names = ", ".join(variables)
    source = (
        f"def outer({names}):\n"
        f" def forward_call(*args, **kwargs):\n"
        f"  return {_TARGET}(*args, **kwargs)\n" + (f"  {names}\n" if names else "")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # "an integer is not callable": it will be one that is
        module = compile(source, "<msprobe>", "exec")
    outer = next(const for const in module.co_consts if isinstance(const, types.CodeType))
    return next(const for const in outer.co_consts if isinstance(const, types.CodeType))


class Removable(Protocol):
    """Takes its hook off."""

    def remove(self) -> None: ...


class Exchange(Protocol):
    """A change to torch that can be made and taken back any number of times."""

    def install(self) -> None: ...

    def remove(self) -> None: ...


class CodeExchange:
    """Calls of a Python function go to `make_target(original)`, whatever name it was imported under."""

    def __init__(self, function: types.FunctionType, make_target: Callable[[Any], Any]) -> None:
        self._function = function
        self._original_code = function.__code__
        # What inspect would read off the code; functions that wrap others tell theirs themselves.
        told = hasattr(function, "__wrapped__") or hasattr(function, "__signature__")
        self._signature = None if told else inspect.signature(function)
        original = types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        original.__kwdefaults__ = function.__kwdefaults__
        original.__qualname__ = function.__qualname__
        self._code = _code_that_calls(make_target(original), function.__code__)

    def install(self) -> None:
        self._function.__code__ = self._code
        if self._signature is not None:
            self._function.__signature__ = self._signature  # type: ignore[attr-defined]

    def remove(self) -> None:
        self._function.__code__ = self._original_code
        if self._signature is not None:
            self._function.__dict__.pop("__signature__", None)  # others may have taken it away


def _code_that_calls(target: Any, original: types.CodeType) -> types.CodeType:
    """Where it comes from stays readable: tools that look for the source find that of the original."""
    template = _template(original.co_freevars)
    return template.replace(
        co_consts=tuple(target if const == _TARGET else const for const in template.co_consts),
        co_name=original.co_name,
        co_filename=original.co_filename,
        co_firstlineno=original.co_firstlineno,
    )


class AttributeExchange:
    """Another value for an attribute of a module or class."""

    def __init__(self, owner: Any, attribute: str, value: Any) -> None:
        self._owner = owner
        self._attribute = attribute
        self._value = value
        self._own = vars(owner).get(attribute, self)  # self: it was inherited

    def install(self) -> None:
        setattr(self._owner, self._attribute, self._value)

    def remove(self) -> None:
        if self._own is self:
            if self._attribute in vars(self._owner):
                delattr(self._owner, self._attribute)
        else:
            setattr(self._owner, self._attribute, self._own)


class OperatorExchange:
    """Other values for several operators of a class, all at once: setattr() would look for each of them in
    every subclass.
    """

    def __init__(self, owner: type, values: dict[str, Any], set_attributes: Callable[..., None]) -> None:
        self._owner = owner
        self._values = values
        self._own = {name: vars(owner)[name] for name in values if name in vars(owner)}
        self._inherited = [name for name in values if name not in vars(owner)]
        self._set_attributes = set_attributes

    @staticmethod
    def can_exchange(owner: type, name: str) -> bool:
        """Whether Python looks for the operator by its name, as it does unless it is one made in C."""
        return not isinstance(getattr(owner, name), types.WrapperDescriptorType)

    def install(self) -> None:
        self._set_attributes(self._owner, self._values, [])

    def remove(self) -> None:
        self._set_attributes(self._owner, self._own, self._inherited)


class ModeExchange:
    """A mode of torch, which `push` puts on the stack of this thread. Others may be pushed on top of it and
    stay.
    """

    def __init__(self, mode: Any, push: Callable[[Any], None]) -> None:
        self._mode = mode
        self._push = push

    def install(self) -> None:
        self._push(self._mode)

    def remove(self) -> None:
        import torch

        above = []
        while torch._C._len_torch_function_stack() > 0:
            mode = torch._C._pop_torch_function_stack()
            if mode is self._mode:
                break
            above.append(mode)
        for mode in reversed(above):
            torch._C._push_on_torch_function_stack(mode)


class HiddenFromQuestions:
    """Code that asks whether its arguments are anything special, as nn.MultiheadAttention does to choose a
    fast path, gets the answer it would get without our mode.
    """

    def __init__(self, without_mode: Callable[..., Any]) -> None:
        import torch

        overrides: Any = torch.overrides
        self._exchange = AttributeExchange(
            overrides, "has_torch_function", functools.partial(without_mode, overrides.has_torch_function)
        )

    def install(self) -> None:
        self._exchange.install()

    def remove(self) -> None:
        self._exchange.remove()


class OffWhileCompiled:
    """Takes `others` back from the moment a region compiled by torch.compile is entered until it is left: it
    would be compiled anew, or break into pieces, because of them.
    """

    def __init__(self, others: list[Exchange]) -> None:
        self._others = others
        self._exchange: AttributeExchange | None = None
        self._open: Any = None  # the outermost call of torch's wrappers, or its context
        self._never_opens: frozenset[types.CodeType] = frozenset()

    def install(self) -> None:
        if self._exchange is None:
            eval_frame = sys.modules.get("torch._dynamo.eval_frame")
            original = getattr(eval_frame, "_maybe_set_eval_frame", None)
            if original is None:
                return
            # Functions left out turn compiling off, and on again; torch 2.14 tells only the latter.
            disabling = vars(getattr(eval_frame, "DisableContext", object)).get("__call__")
            constants = disabling.__code__.co_consts if isinstance(disabling, types.FunctionType) else ()
            self._never_opens = frozenset(code for code in constants if isinstance(code, types.CodeType))
            self._exchange = AttributeExchange(eval_frame, "_maybe_set_eval_frame", self._around(original))
        self._exchange.install()

    def remove(self) -> None:
        if self._exchange is not None:
            self._exchange.remove()

    def _around(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        # A wrapper of what is compiled calls this twice from one frame: with what compiles the region, and
        # with what was set before. They nest; only the outermost counts.
        def set_eval_frame(callback: Any) -> Any:
            caller = sys._getframe(1)
            while caller.f_code is set_eval_frame.__code__ and caller.f_back is not None:
                caller = caller.f_back  # another one of this class stands on top
            if caller.f_code in self._never_opens:
                return original(callback)
            in_context = caller.f_code.co_name in ("__enter__", "__exit__")
            region = caller.f_locals.get("self") if in_context else caller
            if self._open is None:
                if callback is not None and callback is not False:
                    self._open = region
                    for other in reversed(self._others):
                        other.remove()
            elif self._open is region:
                previous = original(callback)
                self._open = None
                for other in self._others:
                    other.install()
                return previous
            return original(callback)

        return set_eval_frame


class Hooks:
    """Several exchanges as one."""

    def __init__(self, exchanges: list[Exchange]) -> None:
        self._exchanges = exchanges
        self._installed = False

    def install(self) -> None:
        if self._installed:
            return
        self._installed = True
        for exchange in self._exchanges:
            exchange.install()

    def remove(self) -> None:
        if not self._installed:
            return
        self._installed = False
        for exchange in reversed(self._exchanges):
            exchange.remove()
