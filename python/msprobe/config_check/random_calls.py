# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the calls of random functions by call stack, until the first step of a checked model.

The functions get a wrapper in their place; streams of random numbers, results and errors stay what they are.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import linecache
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from msprobe.config_check.random_functions import (
    FUNCTIONS,
    GENERATOR_METHODS,
    GENERATOR_PREFIX,
    SEEDING,
)
from msprobe.hooks.functions import AttributeExchange
from msprobe.native import log

if TYPE_CHECKING:
    from collections.abc import Callable
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

_Key = tuple[Any, ...]


class RandomCalls:
    """One counter. install() and stop() may be called in any order, any number of times."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may draw a number while we count
        self._counters: dict[_Key, Callable[[], int]] = {}  # the next value is the number of calls plus one
        self._stacks: dict[_Key, list[str]] = {}
        self._inside: set[_Key] = set()  # calls that a counted function makes itself
        self._codes: list[object] = []  # keeps the codes alive whose numbers are in the keys
        self._seeds: list[dict[str, str]] = []
        self._exchanges: list[AttributeExchange] = []
        self._active = False
        self._calls = itertools.count(1).__next__
        os.register_at_fork(after_in_child=self._forget_exchanges)

    @property
    def is_installed(self) -> bool:
        return bool(self._exchanges)

    def install(self) -> None:
        """Puts the wrappers in place; what was counted before is forgotten."""
        if self._exchanges:
            return
        with self._lock:
            self._counters, self._stacks, self._codes, self._seeds = {}, {}, [], []
            self._calls = itertools.count(1).__next__
            self._inside = set()
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
        for exchange in self._exchanges:
            exchange.remove()
        self._exchanges = []

    def counted(self) -> dict[str, list[dict[str, Any]]]:
        """By operation, as a pack has it."""
        found: dict[str, list[dict[str, Any]]] = {}
        with self._lock:
            for key, counter in self._counters.items():
                count = counter() - 1
                self._counters[key] = itertools.count(count + 1).__next__
                found.setdefault(key[0], []).append({"count": count, "stack": self._stacks[key]})
        # Lambdas on one line, say, have stacks of the same text.
        return {op: _merged(entries) for op, entries in found.items()}

    def seeds(self) -> list[dict[str, str]]:
        """The calls that seed a generator, with their arguments, in order."""
        return list(self._seeds)

    def _forget_exchanges(self) -> None:
        """In a forked child nobody asks for the counts."""
        if self._exchanges:
            self.stop()

    # ---- counting

    def note(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Counts a call that a wrapper got; two frames up is the caller. Never raises."""
        if not self._active:
            return
        # Paid for a thousand times in a step. The dictionary and the counters need no lock.
        try:
            caller = sys._getframe(2)
            parts: list[Any] = [op]
            add = parts.append
            frame: FrameType | None = caller
            while frame is not None:
                add(id(frame.f_code))
                add(frame.f_lasti)
                frame = frame.f_back
            key = tuple(parts)
            count = self._counters.get(key)
            if count is not None:
                count()
            elif not self._is_new(key, caller):
                return
            if op in SEEDING:
                self._keep_seed(op, args, kwargs, self._stacks[key][-1])
            if self._calls() >= _MOST_CALLS:
                log.info("config check: %d random calls were counted, that is enough", _MOST_CALLS)
                self.stop()
        except Exception as error:
            self._active = False
            log.warning("config check: random calls are not counted any more: %s", error)

    def _keep_seed(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any], where: str) -> None:
        if len(self._seeds) < _MOST_SEEDS:
            self._seeds.append({"call": op, "arguments": _arguments(args, kwargs), "where": where})

    def _is_new(self, key: _Key, caller: FrameType) -> bool:
        """Counts a call from a stack that was not seen so far, and keeps its text. False for one that is not
        to be counted.
        """
        if key in self._inside or len(self._counters) + len(self._inside) >= _MOST_STACKS:
            return False
        frames: list[FrameType] = []
        frame: FrameType | None = caller
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        self._codes += [one.f_code for one in frames]
        if any(one.f_code.co_filename == __file__ for one in frames):
            self._inside.add(key)
            return False
        text = [_frame_text(one) for one in reversed(frames)]
        with self._lock:
            self._stacks.setdefault(key, text)
            counter = self._counters.get(key)
            if counter is None:
                counter = self._counters[key] = itertools.count(1).__next__
        counter()
        return True

    # ---- wrappers

    def _wrapper(self, op: str, original: Any, module_name: str, attribute: str) -> Callable[..., Any]:
        note = self.note
        compiling = _compiling()

        def call(*args: Any, **kwargs: Any) -> Any:
            if not compiling():  # torch.compile takes what stands behind, and us out
                note(op, args, kwargs)
            return original(*args, **kwargs)

        if op == "np.random.default_rng":
            call = self._generator_maker(original)
        functools.update_wrapper(call, original)
        # By these a pickle finds the function again.
        name = getattr(original, "__name__", op.rpartition(".")[2])
        call.__module__, call.__qualname__ = module_name, f"{attribute}.{name}" if attribute else name
        _keep_known_to_torch(call, original)
        return call

    def _generator_maker(self, original: Any) -> Callable[..., Any]:
        numpy_random: Any = _module("numpy.random")
        counted = _counted_generator(self.note, numpy_random.Generator)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.note("np.random.default_rng", args, kwargs)
            generator = original(*args, **kwargs)
            is_given = any(generator is one for one in (*args, *kwargs.values()))
            if is_given or type(generator) is not numpy_random.Generator:
                return generator
            return counted(generator.bit_generator)

        return call


def _counted_generator(note: Callable[..., None], base: Any) -> Any:
    """numpy's Generator whose methods are counted: the methods of the class itself cannot be exchanged."""

    def method(name: str) -> Callable[..., Any]:
        original = getattr(base, name)

        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            note(GENERATOR_PREFIX + name, args, kwargs)
            return original(self, *args, **kwargs)

        return call

    methods = {name: method(name) for name in GENERATOR_METHODS if hasattr(base, name)}
    return type("Generator", (base,), {**methods, "__module__": base.__module__, "__doc__": base.__doc__})


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


# ---- text


def _frame_text(frame: FrameType) -> str:
    code = frame.f_code
    line = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals).strip()
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
