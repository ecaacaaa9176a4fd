# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Finds where two training runs diverge numerically.

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
        hunt,
        nan_analyze,
        repeat,
        replicas,
        resume,
        rl_compare,
        run,
        show,
        trend,
        view,
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
        MalformedConfig,
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
    "MalformedConfig",
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
    "hunt",
    "monitor",
    "nan_analyze",
    "repeat",
    "replicas",
    "restore_dropout",
    "resume",
    "rl_compare",
    "run",
    "seed_all",
    "show",
    "trend",
    "view",
]

_HOME = {
    "ConfigChecker": "msprobe.config_check.checker",
    "GradComparator": "msprobe.grad_probe.comparator",
    "PrecisionDebugger": "msprobe.debugger",
    "Result": "msprobe.result",
    "capture": "msprobe.capturing",
    **dict.fromkeys(("ckpt", "grad_compare", "nan_analyze", "replicas", "rl_compare", "view"), "msprobe.api"),
    "monitor": "msprobe.training_monitor",
    "restore_dropout": "msprobe.seed",
    "seed_all": "msprobe.seed",
}

# Functions of msprobe.api whose packages have the same names.
_ALSO_PACKAGES = (
    "check", "compare", "config_check", "diagnose", "diff", "graph", "hunt", "repeat", "resume", "run",
    "show", "trend",
)  # fmt: skip


if not TYPE_CHECKING:  # else every name would be one

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'msprobe' has no attribute {name!r}{_meant(name)}")
        if name in _ALSO_PACKAGES:
            value = _function(name)
        else:
            value = getattr(import_module(_HOME.get(name, "msprobe.native")), name)
        globals()[name] = value  # the next look-up does not come here
        return value


def _meant(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, __all__, n=1)
    return f": did you mean {close[0]!r}?" if close and not name.startswith("_") else ""


def __dir__() -> list[str]:
    return sorted(__all__)


def _function(name: str) -> Callable[..., object]:
    """That of msprobe.api, which has what the package of its name offers, and its modules, as attributes."""
    package = import_module(f"msprobe.{name}")
    function: Callable[..., object] = getattr(import_module("msprobe.api"), name)
    for module in [one for one in vars(package).values() if isinstance(one, ModuleType)]:
        setattr(function, module.__name__.rpartition(".")[2], module)
    for offered in getattr(package, "__all__", ()):
        setattr(function, offered, getattr(package, offered))
    return function


class _WithFunction(ModuleType):
    """A package that has the name of a function: its modules become attributes of that one, too."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        function = vars(sys.modules["msprobe"]).get(self.__name__.partition(".")[2])
        if function is not None and isinstance(value, ModuleType):
            setattr(function, name, value)


class _Package(ModuleType):
    """This package. Python binds a package inside of it here, whoever imports that one first: the function
    of its name is what a user finds instead.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _ALSO_PACKAGES and isinstance(value, ModuleType):
            value.__class__ = _WithFunction
            return
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
