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
import types
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from msprobe.hooks.compiled_regions import OffInRegions
from msprobe.native import torch_adapter

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


class CodeExchange(OffInRegions):
    """Calls of a Python function go to `make_target(original)`, whatever name it was imported under.

    seen_as: the file that frames of it seem to be of; None: that of the function.
    """

    _puts: ClassVar[dict[types.FunctionType, int]] = {}

    @classmethod
    def puts_on(cls, function: types.FunctionType) -> int:
        """How often one was put on a function: whether that has changed since."""
        return cls._puts.get(function, 0)

    def __init__(
        self,
        function: types.FunctionType,
        make_target: Callable[[Any], Any],
        seen_as: str | None = None,
    ) -> None:
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
        if seen_as is not None:
            self._code = self._code.replace(co_filename=seen_as)

    def put(self) -> None:
        self._puts[self._function] = self.puts_on(self._function) + 1
        self._function.__code__ = self._code
        if self._signature is not None:
            self._function.__signature__ = self._signature  # type: ignore[attr-defined]

    def take(self) -> None:
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


class AttributeExchange(OffInRegions):
    """Another value for an attribute of a module or class. What the program puts there meanwhile stays."""

    _INHERITED = object()
    _of_value: ClassVar[dict[int, AttributeExchange]] = {}  # those that were made, by the id of the value

    def __init__(self, owner: Any, attribute: str, value: Any) -> None:
        self._owner = owner
        self._attribute = attribute
        self._value = value
        self._own = self._present()
        self._below = self._of_value.get(id(self._own))  # one of ours that stood there

    def install(self) -> None:
        self._of_value[id(self._value)] = self
        super().install()

    def remove(self) -> None:
        super().remove()
        self._of_value.pop(id(self._value), None)

    def put(self) -> None:
        if self._present() is self._before():
            setattr(self._owner, self._attribute, self._value)

    def take(self) -> None:
        if self._present() is not self._value:
            return  # something is on top of it, and calls it or not
        before = self._before()
        if before is self._INHERITED:
            delattr(self._owner, self._attribute)
        else:
            setattr(self._owner, self._attribute, before)

    def _present(self) -> Any:
        return vars(self._owner).get(self._attribute, self._INHERITED)

    def _before(self) -> Any:
        """What stood there, but for those of ours that have gone since."""
        own, below = self._own, self._below
        while below is not None and not below.is_installed:
            own, below = below._own, below._below
        return own


class OperatorExchange(OffInRegions):
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

    def put(self) -> None:
        self._set_attributes(self._owner, self._values, [])

    def take(self) -> None:
        self._set_attributes(self._owner, self._own, self._inherited)


class ModeExchange(OffInRegions):
    """A mode of ours, which `push` puts on the stack of modes of this thread, below all others.

    torch keeps its default device there, too, and looks for it at the very bottom: it does not find us there.
    """

    _installed: ClassVar[set[ModeExchange]] = set()
    _default_device: ClassVar[list[CodeExchange]] = []

    def __init__(self, mode: Any, push: Callable[[Any], None]) -> None:
        self._mode = mode
        self._push = push

    def install(self) -> None:
        if not self._installed:
            for exchange in self._default_devices():
                exchange.install()
        self._installed.add(self)
        super().install()

    def remove(self) -> None:
        super().remove()
        if self in self._installed:
            self._installed.remove(self)
            if not self._installed:
                for exchange in self._default_devices():
                    exchange.remove()

    def put(self) -> None:
        self._push(self._mode)

    def take(self) -> None:
        torch_adapter().remove_mode(self._mode)

    @classmethod
    def _default_devices(cls) -> list[CodeExchange]:
        if not cls._default_device:
            from torch.utils._device import DeviceContext

            cls._default_device += [
                CodeExchange(function, without_modes)
                for function in (vars(DeviceContext).get("__enter__"), vars(DeviceContext).get("__exit__"))
                if isinstance(function, types.FunctionType)
            ]
        return cls._default_device


def without_modes(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called as if none of our modes were there."""
    without_mode = torch_adapter().call_without_mode

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return without_mode(functools.partial(original, *args, **kwargs))

    return call


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
