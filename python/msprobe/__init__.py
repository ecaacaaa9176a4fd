# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Finds where two training runs part numerically.

Everything is imported on first use: ``import msprobe`` loads neither torch nor the native library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # not from typing, whose import takes longer than a help text should
if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.api import (
        check,
        ckpt,
        compare,
        config_check,
        diagnose,
        diff,
        grad_compare,
        graph,
        nan_analyze,
        rl_compare,
        trend,
    )
    from msprobe.capturing import capture
    from msprobe.config_check.checker import ConfigChecker
    from msprobe.debugger import PrecisionDebugger
    from msprobe.grad_probe.comparator import GradComparator
    from msprobe.native import (
        Error,
        FormatError,
        InternalError,
        InvalidArgument,
        IoError,
        NothingToCompare,
        UnsupportedError,
        __version__,
    )
    from msprobe.result import Result
    from msprobe.seed import restore_dropout, seed_all
    from msprobe.training_monitor import monitor

__all__ = [
    "ConfigChecker",
    "Error",
    "FormatError",
    "GradComparator",
    "InternalError",
    "InvalidArgument",
    "IoError",
    "NothingToCompare",
    "PrecisionDebugger",
    "Result",
    "UnsupportedError",
    "__version__",
    "capture",
    "check",
    "ckpt",
    "compare",
    "config_check",
    "diagnose",
    "diff",
    "grad_compare",
    "graph",
    "monitor",
    "nan_analyze",
    "restore_dropout",
    "rl_compare",
    "seed_all",
    "trend",
]

_HOME = {
    "ConfigChecker": "msprobe.config_check.checker",
    "GradComparator": "msprobe.grad_probe.comparator",
    "PrecisionDebugger": "msprobe.debugger",
    "Result": "msprobe.result",
    "capture": "msprobe.capturing",
    **dict.fromkeys(("ckpt", "grad_compare", "nan_analyze", "rl_compare"), "msprobe.api"),
    "monitor": "msprobe.training_monitor",
    "restore_dropout": "msprobe.seed",
    "seed_all": "msprobe.seed",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'msprobe' has no attribute {name!r}")
    if name in _CALLABLE:
        return import_module(f"msprobe.{name}")  # which binds it
    value = getattr(import_module(_HOME.get(name, "msprobe.native")), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


# Functions whose packages have the same names.
_CALLABLE = ("check", "compare", "config_check", "diagnose", "diff", "graph", "trend")


class _Callable(ModuleType):
    """A package that is called as the function of its name in msprobe.api."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._function(*args, **kwargs)

    @property
    def __signature__(self) -> object:
        import inspect

        return inspect.signature(self._function)

    @property
    def _function(self) -> Callable[..., object]:
        function: Callable[..., object] = getattr(
            import_module("msprobe.api"), self.__name__.partition(".")[2]
        )
        return function


class _Package(ModuleType):
    """This package. Python binds a package inside of it here, whoever imports that one first."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _CALLABLE and isinstance(value, ModuleType):
            value.__class__ = _Callable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


class _OtherNames:
    """The last finder to be asked: for modules of mindstudio-probe that are not on disk."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        if not name.startswith("msprobe."):
            return None
        from msprobe.compat.other_names import spec_of

        return spec_of(name)


sys.meta_path.append(_OtherNames)  # type: ignore[arg-type]
