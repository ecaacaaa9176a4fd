# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a script in this process as `python script.py` or `python -m module` would, or a notebook."""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
import types
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from typing import TYPE_CHECKING

from msprobe.native import InvalidArgument, log
from msprobe.recording.notebook import compile_notebook, is_notebook
from msprobe.terminal.command_line import absent

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec

    _Loaded = tuple[list[types.CodeType], types.ModuleType]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Program:
    """The code of a script or module, ready to run.

    Raises InvalidArgument when there is no such script or module, and lets the SyntaxError of a script
    through, which `run` then reports as Python does.
    """

    def __init__(self, words: list[str], *, is_module: bool) -> None:
        """words: the script, or the name of the module, and its arguments."""
        self.words = words
        self.is_module = is_module
        self._load = self._module(words[0]) if is_module else self._script(words[0])

    def run(self, before_end: Callable[[BaseException | None], None]) -> int:
        """Runs it, and returns the exit code; SystemExit goes on to the interpreter. An exception is reported
        as the interpreter does, without the frames of msprobe.

        before_end: called once when the program has ended, with what ended it.
        """
        ending: BaseException | None = None
        atexit.register(_end_by_signal)  # first, so that it is called last
        try:
            codes, module = self._load()
            self._become_main(module)
            for code in codes:
                exec(code, module.__dict__)
        except BaseException as error:
            ending = error
        if not isinstance(ending, KeyboardInterrupt):
            atexit.unregister(_end_by_signal)
        before_end(ending)
        if ending is None:
            return 0
        if isinstance(ending, SystemExit):
            raise ending
        _report(ending)
        return 1

    def _become_main(self, module: types.ModuleType) -> None:
        """Stays in place after the end: threads and what is called at exit may still need it."""
        sys.modules["__main__"] = module
        sys.argv[:] = [str(module.__file__) if self.is_module else self.words[0], *self.words[1:]]

    def _script(self, path: str) -> Callable[[], _Loaded]:
        if os.path.isdir(path) or not os.path.exists(path):
            said = "is a folder" if os.path.isdir(path) else ""
            said = f"{path} {said}" if said else absent(path)
            expected = "" if said.endswith("?") else "; expected a Python script or a notebook"
            raise InvalidArgument(said + expected)

        def load() -> _Loaded:
            absolute = os.path.abspath(path)  # as Python names its main file
            codes = compile_notebook(absolute) if is_notebook(path) else [_compiled(absolute)]
            _set_first_path(os.path.dirname(os.path.realpath(path)))
            module = types.ModuleType("__main__")
            module.__file__ = absolute
            module.__loader__ = SourceFileLoader("__main__", absolute)
            module.__dict__["__builtins__"] = sys.modules["builtins"]
            module.__dict__["__cached__"] = None
            return codes, module

        return load

    def _module(self, name: str) -> Callable[[], _Loaded]:
        def load() -> _Loaded:
            _set_first_path(os.getcwd())
            spec = self._spec_of(name)
            assert spec.loader is not None
            get_code = getattr(spec.loader, "get_code", None)
            code = get_code(spec.name) if get_code is not None else None
            if code is None:
                raise ImportError(f"No code object available for {spec.name}")
            module = types.ModuleType("__main__")
            module.__file__ = spec.origin
            module.__loader__ = spec.loader
            module.__package__ = spec.parent
            module.__spec__ = spec
            module.__dict__["__builtins__"] = sys.modules["builtins"]
            module.__dict__["__cached__"] = spec.cached
            return [code], module

        return load

    def _spec_of(self, name: str) -> ModuleSpec:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = find_spec(name)
        if spec is None or spec.loader is None:
            raise ImportError(f"No module named {name}")
        return spec


def _compiled(path: str) -> types.CodeType:
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _set_first_path(folder: str) -> None:
    """Where Python itself puts the folder of the script, or the working directory."""
    if not getattr(sys.flags, "safe_path", False) and sys.path:
        sys.path[0] = folder


def without_our_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback without the frames of this package, which the script knows nothing of."""
    kept = []
    while trace is not None:
        if not _is_ours(trace.tb_frame.f_code):
            kept.append(trace)
        trace = trace.tb_next
    result = None
    for one in reversed(kept):
        result = types.TracebackType(result, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return result


def _is_ours(code: types.CodeType) -> bool:
    """Also what hooks.functions puts in place of other code: it bears the name of that, but has what it calls
    as a constant, which no compiler makes.
    """
    return os.path.abspath(code.co_filename).startswith(_PACKAGE) or any(map(callable, code.co_consts))


def _report(error: BaseException) -> None:
    """As the interpreter does for an exception that nobody caught."""
    seen = set()
    one: BaseException | None = error
    chain = [error]
    while chain:
        one = chain.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = without_our_frames(one.__traceback__)
        chain += [other for other in (one.__cause__, one.__context__) if other is not None]
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as problem:  # of a hook of the script
        log.error("sys.excepthook failed: %s: %s", type(problem).__name__, problem)
        sys.__excepthook__(type(error), error, error.__traceback__)


def _end_by_signal() -> None:
    """At the end of the process, when all else has ended: it ends by the signal that interrupted the script,
    so that a shell sees what it would see without msprobe.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
