# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the calls of random functions by call stack, until the first step of a checked model.

The functions get a wrapper in their place; streams of random numbers, results and errors stay what they are.
"""

from __future__ import annotations

import functools
import importlib
import linecache
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from msprobe.config_check.collecting.random_functions import (
    FUNCTIONS,
    GENERATOR_METHODS,
    GENERATOR_PREFIX,
    SEEDING,
)
from msprobe.files.credentials import concealed_code
from msprobe.hooks.functions import AttributeExchange
from msprobe.native import core, log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_MOST_CALLS = 1_000_000  # then counting ends: a training without a checked model must not pay for ever
_MOST_STACKS = 10_000
_MOST_SEEDS = 1000
_LONGEST_ARGUMENTS = 200

# Prefix in the pack -> module and attribute that have the functions; a module is looked at when it is there.
_OWNERS = {
    "random.": ("random", ""),
    "np.random.": ("numpy.random", ""),
    "torch.": ("torch", ""),
    "torch.Tensor.": ("torch", "Tensor"),
    "torch.cuda.": ("torch.cuda", ""),
}


class RandomCalls:
    """One counter. install() and stop() may be called in any order, any number of times."""

    def __init__(self, most_calls: int = _MOST_CALLS) -> None:
        self._most_calls = most_calls
        self._lock = threading.RLock()  # a finalizer may draw a number while we count
        self._counter = self._new_counter()
        self._operations: list[str] = []  # by their numbers in the counter
        self._stacks: dict[int, list[str]] = {}  # by their numbers in the counter
        self._seeds: list[dict[str, str]] = []
        self._exchanges: list[AttributeExchange] = []
        self._active = False
        os.register_at_fork(after_in_child=self._forget_exchanges)

    @property
    def is_installed(self) -> bool:
        return bool(self._exchanges)

    def install(self) -> None:
        """Puts the wrappers in place; what was counted before is forgotten."""
        if self._exchanges:
            return
        with self._lock:
            self._counter = self._new_counter()
            self._operations, self._stacks, self._seeds = [], {}, []
        for prefix, names in FUNCTIONS.items():
            module_name, attribute = _OWNERS[prefix]
            owner = _module(module_name)
            if owner is not None and attribute:
                owner = getattr(owner, attribute)
            for name in names:
                original = getattr(owner, name, None)
                if original is not None:
                    wrapper = self._wrapper(prefix + name, original, module_name, attribute)
                    self._exchanges.append(AttributeExchange(owner, name, wrapper))
        self._active = True
        for exchange in self._exchanges:
            exchange.install()

    def stop(self) -> None:
        """Puts the functions back; what was counted stays. Wrappers that a program took under another name go
        on as plain functions.
        """
        self._active = False
        self._counter.stop()
        for exchange in self._exchanges:
            exchange.remove()
        self._exchanges = []

    def counted(self) -> dict[str, list[dict[str, Any]]]:
        """By operation, as a pack has it."""
        found: dict[str, list[dict[str, Any]]] = {}
        with self._lock:
            for operation, number, count in self._counter.counts():
                stack = self._stacks.get(number)
                if stack is not None:
                    entries = found.setdefault(self._operations[operation], [])
                    entries.append({"count": count, "stack": stack})
        # Lambdas on one line, say, have stacks of the same text.
        return {op: _merged(entries) for op, entries in found.items()}

    def seeds(self) -> list[dict[str, str]]:
        """The calls that seed a generator, with their arguments, in order."""
        return list(self._seeds)

    def _new_counter(self) -> core.StackCounter:
        return core.StackCounter(most_calls=self._most_calls, most_stacks=_MOST_STACKS)

    def _forget_exchanges(self) -> None:
        """In a forked child nobody asks for the counts."""
        if self._exchanges:
            self.stop()

    # ---- counting

    def _counting(self, op: str) -> Callable[[], int | None]:
        """Counts a call of `op`: called by its wrapper, a thousand times in a step. What it returns, unless
        it is None, is for note().
        """
        self._operations.append(op)
        return self._counter.counting(len(self._operations) - 1)

    def note(self, number: int) -> None:
        """Of a call whose stack is new: keeps the text; and ends the counting when it is enough. Two frames
        up is the caller. Never raises.
        """
        try:
            if number >= 0:
                self._describe(number, sys._getframe(2))
            if self._counter.has_enough:
                log.info("config check: %d random calls were counted, that is enough", self._most_calls)
                self.stop()
        except Exception as error:
            self._give_up(error)

    def note_seed(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keeps the arguments of a call that seeds a generator. As note()."""
        if not self._active:
            return
        try:
            caller = sys._getframe(2)
            if len(self._seeds) < _MOST_SEEDS and not _is_inside_a_wrapper(caller):
                where = _frame_text(caller)
                self._seeds.append({"call": op, "arguments": _arguments(args, kwargs), "where": where})
        except Exception as error:
            self._give_up(error)

    def note_generator(self, generator: Any) -> None:
        """Keeps the seed of a torch.Generator that draws at a place for the first time: where it is seeded
        nobody can look on. As note().
        """
        if not self._active or not hasattr(generator, "initial_seed"):
            return
        try:
            caller = sys._getframe(2)
            if len(self._seeds) < _MOST_SEEDS and not _is_inside_a_wrapper(caller):
                seed, where = str(generator.initial_seed()), _frame_text(caller)
                self._seeds.append({"call": "torch.Generator", "arguments": seed, "where": where})
        except Exception as error:
            self._give_up(error)

    def _describe(self, number: int, caller: FrameType) -> None:
        if _is_inside_a_wrapper(caller):
            self._counter.leave_out(number)
        else:
            text = [_frame_text(frame) for frame in _frames(caller)]
            self._stacks[number] = text[::-1]

    def _give_up(self, error: Exception) -> None:
        self._active = False
        self._counter.stop()
        log.warning("config check: random calls are not counted any more: %s", error)

    # ---- wrappers

    def _wrapper(self, op: str, original: Any, module_name: str, attribute: str) -> Callable[..., Any]:
        count, note, note_generator = self._counting(op), self.note, self.note_generator
        compiling = _compiling()

        def call(*args: Any, **kwargs: Any) -> Any:
            if not compiling():  # torch.compile takes what stands behind, and us out
                number = count()
                if number is not None:
                    note(number)
                    note_generator(kwargs.get("generator"))
            return original(*args, **kwargs)

        if op in SEEDING:
            call = self._seeding(op, original)
        functools.update_wrapper(call, original)
        # By these a pickle finds the function again.
        name = getattr(original, "__name__", op.rpartition(".")[2])
        call.__module__, call.__qualname__ = module_name, f"{attribute}.{name}" if attribute else name
        _keep_known_to_torch(call, original)
        return call

    def _seeding(self, op: str, original: Any) -> Callable[..., Any]:
        count, note, note_seed, compiling = self._counting(op), self.note, self.note_seed, _compiling()
        result_of = self._counted_generators() if op == "np.random.default_rng" else None

        def call(*args: Any, **kwargs: Any) -> Any:
            if not compiling():
                number = count()
                if number is not None:
                    note(number)
                note_seed(op, args, kwargs)
            result = original(*args, **kwargs)
            return result if result_of is None else result_of(result, (*args, *kwargs.values()))

        return call

    def _counted_generators(self) -> Callable[[Any, tuple[Any, ...]], Any]:
        """Takes a generator of numpy and what it was made from; returns it, or one with the same numbers
        whose methods are counted: those of numpy's class cannot be exchanged.
        """
        base = _module("numpy.random").Generator
        methods = {
            name: self._method(GENERATOR_PREFIX + name, getattr(base, name))
            for name in GENERATOR_METHODS
            if hasattr(base, name)
        }
        counted: Any = type(
            "Generator", (base,), {**methods, "__module__": base.__module__, "__doc__": base.__doc__}
        )

        def result_of(generator: Any, given: tuple[Any, ...]) -> Any:
            if type(generator) is not base or any(generator is one for one in given):
                return generator
            return counted(generator.bit_generator)

        return result_of

    def _method(self, op: str, original: Any) -> Callable[..., Any]:
        count, note = self._counting(op), self.note

        @functools.wraps(original)
        def call(generator: Any, *args: Any, **kwargs: Any) -> Any:
            number = count()
            if number is not None:
                note(number)
            return original(generator, *args, **kwargs)

        return call


def _module(name: str) -> Any:
    """None for what is not installed. Torch is imported: the program is one of torch."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _compiling() -> Callable[[], bool]:
    torch = sys.modules.get("torch")
    return torch.compiler.is_compiling if torch is not None else lambda: False


def _keep_known_to_torch(wrapper: Any, original: Any) -> None:
    """What torch keeps by the identity of its functions."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    # Which functions torch.device("cuda") as a context moves: found once, at the first question.
    constructors: Any = _module("torch.utils._device")
    constructors._device_constructors()
    builtins = getattr(torch.jit, "_builtins", None)  # what torch.jit.script compiles as an operator
    if builtins is not None and hasattr(builtins, "_register_builtin"):
        operator = builtins._find_builtin(original)
        if operator is not None:
            builtins._register_builtin(wrapper, operator)


# ---- frames and text


def _frames(innermost: FrameType) -> Iterator[FrameType]:
    frame: FrameType | None = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_inside_a_wrapper(caller: FrameType) -> bool:
    """Whether it is a call that a counted function makes itself."""
    return any(frame.f_code.co_filename == __file__ for frame in _frames(caller))


def _frame_text(frame: FrameType) -> str:
    code = frame.f_code
    line = concealed_code(linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip())
    return f"File {os.path.abspath(code.co_filename)}, line {frame.f_lineno}, in {code.co_name}, {line}"


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    texts = [_argument(value) for value in args]
    texts += [f"{name}={_argument(value)}" for name, value in kwargs.items()]
    return ", ".join(texts)[:_LONGEST_ARGUMENTS]


def _argument(value: object) -> str:
    """Numbers and texts; other objects would be looked into, which their repr() might not survive."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, (list, tuple)) and len(value) <= 16:
        return "[" + ", ".join(_argument(item) for item in value) + "]"
    return type(value).__name__


def _merged(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_stack: dict[tuple[str, ...], int] = {}
    for entry in entries:
        stack = tuple(entry["stack"])
        by_stack[stack] = by_stack.get(stack, 0) + entry["count"]
    return [{"count": count, "stack": list(stack)} for stack, count in by_stack.items()]
