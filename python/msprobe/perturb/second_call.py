# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a model may be called once more beside the training: what a call changes outside of the model, the
training would see.

Told from the code of its modules. That of installed packages is taken for harmless, as they are called by
anybody any number of times; that of the program may use what cannot change: functions, classes, numbers and
texts. Where the code does not tell, the calls are made in a child process, if the system can make one of this
one: nothing of it is ever seen.
"""

from __future__ import annotations

import builtins
import dis
import json
import logging
import mmap
import numbers
import os
import select
import signal
import sys
import sysconfig
import time
import types
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MODULES = frozenset(
    ("cmath", "collections", "contextlib", "copy", "dataclasses", "einops", "enum", "functools", "itertools",
     "logging", "math", "numpy", "operator", "torch", "types", "typing", "typing_extensions", "warnings")
)  # fmt: skip
_EFFECTS = frozenset(
    ("print", "input", "open", "exec", "eval", "globals", "setattr", "__import__", "breakpoint")
)
_INSTALLED = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_WRITES = {
    "STORE_GLOBAL": "writes the global",
    "DELETE_GLOBAL": "deletes the global",
    "STORE_DEREF": "writes the variable",
}
_MOST_FUNCTIONS = 2000


def effect_of(model: Any) -> str | None:
    """What a call of it may change outside of it, in words; None: nothing."""
    from torch.nn.modules import module as of_torch

    for name, hooks in vars(of_torch).items():
        if name.startswith("_global_") and name.endswith("_hooks"):
            for hook in hooks.values():
                if not _is_installed(hook):
                    return f"{_name_of(hook)} is a hook of all modules"
    kinds = {type(module) for module in model.modules()}
    reader = _Reader()
    for kind in kinds:
        forward = getattr(kind, "forward", None)
        if isinstance(forward, types.FunctionType):
            reader.read(forward, kind)
    return next((f"{name} {what}" for name, what in reader.found), None)


class _Reader:
    """Reads functions, and those that they name."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self._known: set[Any] = set()

    def read(self, function: types.FunctionType, kind: type | None = None) -> None:
        function = getattr(function, "__wrapped__", function)
        if not isinstance(function, types.FunctionType) or (function, kind) in self._known:
            return
        self._known.add((function, kind))
        if _is_installed(function) or len(self._known) > _MOST_FUNCTIONS:
            return
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        self._read_code(function, function.__code__, cells, kind)

    def _read_code(
        self, function: types.FunctionType, code: types.CodeType, cells: dict[str, Any], kind: type | None
    ) -> None:
        name = function.__qualname__
        for step in dis.get_instructions(code):
            named = str(step.argval)
            if step.opname in _WRITES and (step.opname != "STORE_DEREF" or named in cells):
                self.found.append((name, f"{_WRITES[step.opname]} {named}"))
            elif step.opname == "LOAD_GLOBAL":
                values = function.__globals__
                value = values.get(named, getattr(builtins, named, None))
                self._take(name, named, value, is_builtin=named not in values)
            elif step.opname == "IMPORT_NAME":
                if named.partition(".")[0] not in _MODULES:
                    self.found.append((name, f"imports {named}"))
            elif step.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF") and named in cells:
                try:
                    self._take(name, named, cells[named].cell_contents)
                except ValueError:  # it is empty
                    continue
            elif step.opname in ("LOAD_METHOD", "LOAD_ATTR") and kind is not None:
                method = getattr(kind, named, None)
                if isinstance(method, types.FunctionType):
                    self.read(method, kind)
        for const in code.co_consts:
            if isinstance(const, types.CodeType):
                self._read_code(function, const, cells, kind)

    def _take(self, name: str, named: str, value: Any, *, is_builtin: bool = False) -> None:
        if is_builtin and named in _EFFECTS:
            self.found.append((name, f"calls {named}()"))
        elif isinstance(value, types.FunctionType):
            self.read(value)
        elif not _is_constant(value):
            self.found.append((name, f"uses {named}, which may change"))


def _is_constant(value: Any, depth: int = 0) -> bool:
    import torch

    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in _MODULES
    if isinstance(value, (tuple, frozenset)):
        return depth < 10 and all(_is_constant(item, depth + 1) for item in value)
    kinds = (
        type, types.BuiltinFunctionType, types.MethodDescriptorType, numbers.Number, str, bytes, type(None),
        type(Ellipsis), logging.Logger, torch.dtype, torch.device, torch.layout, torch.memory_format,
    )  # fmt: skip
    return isinstance(value, kinds) or (callable(value) and _is_installed(value))


def _is_installed(value: Any) -> bool:
    """Whether a function, or the class of an object, is of Python itself or of an installed package."""
    code = getattr(value, "__code__", None)
    if code is not None:
        return str(code.co_filename).startswith((*_INSTALLED, "<"))
    home = getattr(value, "__module__", None) or type(value).__module__
    module = sys.modules.get(str(home))
    file = getattr(module, "__file__", None)
    return file is None or str(file).startswith(_INSTALLED)


def _name_of(value: Any) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))


# ---- a child process


def why_no_child(model: Any) -> str | None:
    """Why a child of this process could not call it; None: it can."""
    import torch

    distributed: Any = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return "it is one of several processes"
    if any(tensor.device.type != "cpu" for tensor in (*model.parameters(), *model.buffers())):
        return "it is on a device"
    return None


class Child:
    """Does some work in a child process, which ends with it: what it changes, nobody sees. It may not take
    longer than `seconds`.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, work: Callable[[], dict[str, Any]], memory: mmap.mmap) -> dict[str, Any]:
        """What `work()` returns, as JSON has it; larger numbers go to `memory`, which both have. Raises
        ChildFailed.
        """
        receive, send = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads: it makes none, and waits for none
            child = os.fork()
        if child == 0:
            _work(work, receive, send)
        os.close(send)
        try:
            return _answer(receive, time.monotonic() + self._seconds)
        finally:
            os.close(receive)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


class ChildFailed(Exception):
    """It ended without an answer, or did not end."""


def _work(work: Callable[[], dict[str, Any]], receive: int, send: int) -> None:
    """Never returns. Nothing of the program runs at its end."""
    import torch

    try:
        os.close(receive)
        null = os.open(os.devnull, os.O_RDWR)  # what is printed would be printed twice
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        torch.set_num_threads(1)  # those of the parent are not here
        text = json.dumps(work()).encode()
        view = memoryview(text)
        while view:
            view = view[os.write(send, view) :]
    finally:
        os._exit(0)


def _answer(receive: int, end: float) -> dict[str, Any]:
    text = b""
    while True:
        left = end - time.monotonic()
        if left <= 0 or not select.select([receive], [], [], left)[0]:
            raise ChildFailed("it did not end in time")
        piece = os.read(receive, 1 << 16)
        if not piece:
            break
        text += piece
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError:
        raise ChildFailed("it ended without an answer") from None
    return found


def pieces(memory: Any, sizes: dict[str, int]) -> Iterator[tuple[str, Any]]:
    """Memory that a child shares as tensors of float32, one after the other."""
    import torch

    begin = 0
    for name, size in sizes.items():
        if size:
            yield name, torch.frombuffer(memory, dtype=torch.float32, count=size, offset=begin)
        begin += 4 * size
