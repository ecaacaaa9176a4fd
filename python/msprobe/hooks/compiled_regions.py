# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Nothing of msprobe is part of what torch.compile compiles.

While a compiled region runs, every exchange of msprobe is off: the compiler sees torch as it is, its guards
hold with and without msprobe, and nothing breaks a graph into pieces. What torch itself calls inside of a
region, as the hooks of an optimizer, is left out by the compiler, which is told to skip this package.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

from msprobe.hooks.arming import when_imported
from msprobe.native import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COMPILER = "torch._dynamo"


class OffInRegions:
    """A change to torch that is made by install() and taken back by remove(), any number of times; put() and
    take() do it. Between a region's beginning and its end they only say what is to be there afterwards.
    """

    def install(self) -> None:
        _regions.add(self)

    def remove(self) -> None:
        _regions.discard(self)

    @property
    def is_installed(self) -> bool:
        return _regions.is_installed(self)

    def put(self) -> None:
        raise NotImplementedError

    def take(self) -> None:
        raise NotImplementedError


class _Regions:
    """The exchanges that are installed, and whether a region runs. One per process, as what they change."""

    def __init__(self) -> None:
        self._installed: dict[int, OffInRegions] = {}  # in the order of installation, by id()
        self._watchers: list[Callable[[Any], None]] = []
        self._originals: dict[str, Callable[[Any], Any]] = {}  # of torch, while they are exchanged
        self._never_opens: frozenset[types.CodeType] = frozenset()
        self._region: Any = None  # the outermost call of torch's wrappers, or its context

    @property
    def is_open(self) -> bool:
        return self._region is not None

    def add(self, exchange: OffInRegions) -> None:
        if id(exchange) in self._installed:
            return
        self._installed[id(exchange)] = exchange
        if not self._originals:  # else they are followed; a step installs hundreds
            self.follow()
        if not self.is_open:
            exchange.put()

    def discard(self, exchange: OffInRegions) -> None:
        if self._installed.pop(id(exchange), None) is None:
            return
        if not self.is_open:
            exchange.take()
        self._rest()

    def is_installed(self, exchange: OffInRegions) -> bool:
        return id(exchange) in self._installed

    def watch(self, watcher: Callable[[Any], None]) -> None:
        self._watchers.append(watcher)
        self.follow()

    def unwatch(self, watcher: Callable[[Any], None]) -> None:
        self._watchers = [one for one in self._watchers if one is not watcher]
        self._rest()

    # ---- where regions begin and end

    def follow(self) -> None:
        """From now on, as long as there is something to do. The compiler is loaded by the first optimizer or
        torch.compile(), which may be later.
        """
        keep_out()
        eval_frame: Any = _part_of_compiler("eval_frame")
        if eval_frame is None or self._originals or not (self._installed or self._watchers):
            return
        # Functions left out turn compiling off, and on again; torch 2.14 tells only the latter.
        disabling = vars(getattr(eval_frame, "DisableContext", object)).get("__call__")
        constants = disabling.__code__.co_consts if isinstance(disabling, types.FunctionType) else ()
        self._never_opens = frozenset(code for code in constants if isinstance(code, types.CodeType))
        for name in ("set_eval_frame", "_maybe_set_eval_frame"):
            original = getattr(eval_frame, name, None)
            if original is not None:
                self._originals[name] = original
                setattr(eval_frame, name, functools.partial(self._set_eval_frame, name))

    def _rest(self) -> None:
        if self._installed or self._watchers or self.is_open:
            return
        for name, original in self._originals.items():
            setattr(_part_of_compiler("eval_frame"), name, original)
        self._originals = {}

    def _set_eval_frame(self, name: str, callback: Any) -> Any:
        """A wrapper of what is compiled calls this from one frame: first with None, to look around (not with
        every torch), then with what compiles the region, and at its end with None. Regions nest; only the
        outermost counts.
        """
        original = self._originals[name]
        caller = sys._getframe(1)
        if caller.f_code in self._never_opens or caller.f_code.co_name == "_maybe_set_eval_frame":
            return original(callback)
        in_context = caller.f_code.co_name in ("__enter__", "__exit__")
        region = caller.f_locals.get("self") if in_context else caller
        compiles = callback is not None and callback is not False
        begins = compiles or name == "set_eval_frame"
        if self._region is None and begins:
            self._open(region, caller)
        elif self._region is region and not begins:
            previous = original(callback)
            self._close()
            return previous
        return original(callback)

    def _open(self, region: Any, caller: types.FrameType) -> None:
        for watcher in list(self._watchers):
            watcher(caller)
        self._region = region
        for exchange in reversed(self._installed.values()):
            exchange.take()

    def _close(self) -> None:
        self._region = None
        for exchange in list(self._installed.values()):
            exchange.put()
        self._rest()


_regions = _Regions()


class RegionWatch:
    """Calls `before(modules)` before a compiled region begins that is inside of no other, with the modules
    that what is compiled names: its arguments, and variables of its own and of its module.
    """

    def __init__(self, before: Callable[[list[Any]], None]) -> None:
        self._before = before
        self._watcher = self._begins

    def install(self) -> None:
        _regions.watch(self._watcher)

    def remove(self) -> None:
        _regions.unwatch(self._watcher)

    def _begins(self, caller: types.FrameType) -> None:
        try:
            self._before(list(_modules_of(caller.f_locals)))
        except Exception as error:
            log.debug("a compiled region: %s: %s", type(error).__name__, error)


def _modules_of(names: dict[str, Any]) -> Iterator[Any]:
    from torch import nn

    function = names.get("fn")
    seen: list[Any] = [*(names.get("args") or ()), *(names.get("kwargs") or {}).values()]
    seen.append(getattr(function, "__self__", None))
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is not None:
        values = getattr(function, "__globals__", {})
        seen += [values.get(name) for name in code.co_names]
        for cell in getattr(function, "__closure__", None) or ():
            try:
                seen.append(cell.cell_contents)
            except ValueError:
                continue  # empty
    known: set[int] = set()
    for value in seen:
        if isinstance(value, nn.Module) and id(value) not in known:
            known.add(id(value))
            yield value


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """For what torch calls by itself, which may be inside of a region: neither this nor what it calls is
    compiled.
    """
    keep_out()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _compiles_here():
            return function(*args, **kwargs)
        return sys.modules[_COMPILER].disable(function)(*args, **kwargs)

    return call


def _compiles_here() -> bool:
    """Whether this thread is inside of a region."""
    if _COMPILER not in sys.modules:
        return False
    native: Any = sys.modules.get("torch._C._dynamo.eval_frame")
    ask = getattr(native, "get_eval_frame_callback", None)  # torch 2.5 and newer
    return _regions.is_open if ask is None else ask() not in (None, False)


def keep_out() -> None:
    """The compiler compiles no function of this package."""
    rules: Any = _part_of_compiler("trace_rules")
    if rules is not None and not _left_out:
        _left_out.append(_PACKAGE)
        rules.add(_PACKAGE)
    elif rules is None and not _waits and _COMPILER not in sys.modules:
        _waits.append(_COMPILER)
        when_imported(_COMPILER, _compiler_is_there)


def _compiler_is_there() -> None:
    """At the end of its import, which torch does not count as over yet."""
    spec: Any = sys.modules[_COMPILER].__spec__
    spec._initializing = False
    _regions.follow()


def _part_of_compiler(name: str) -> Any:
    """A module of it; None as long as it is not there as a whole."""
    is_loading = getattr(getattr(sys.modules.get(_COMPILER), "__spec__", None), "_initializing", False)
    return None if is_loading else sys.modules.get(f"{_COMPILER}.{name}")


_PACKAGE = __name__.partition(".")[0]
_left_out: list[str] = []
_waits: list[str] = []
