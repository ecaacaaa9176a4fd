# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Finds where two training runs part numerically.

Everything is imported on first use: ``import msprobe`` loads neither torch nor the native library.
"""

import sys
from importlib import import_module

TYPE_CHECKING = False  # not from typing, whose import takes longer than a help text should
if TYPE_CHECKING:
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
    "UnsupportedError",
    "__version__",
    "capture",
    "monitor",
    "restore_dropout",
    "seed_all",
]

_HOME = {
    "ConfigChecker": "msprobe.config_check.checker",
    "GradComparator": "msprobe.grad_probe.comparator",
    "PrecisionDebugger": "msprobe.debugger",
    "capture": "msprobe.capturing",
    "monitor": "msprobe.training_monitor",
    "restore_dropout": "msprobe.seed",
    "seed_all": "msprobe.seed",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'msprobe' has no attribute {name!r}")
    value = getattr(import_module(_HOME.get(name, "msprobe.native")), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _OtherNames:
    """The last finder to be asked: for modules of mindstudio-probe that are not on disk."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        if not name.startswith("msprobe."):
            return None
        from msprobe.other_names import spec_of

        return spec_of(name)


sys.meta_path.append(_OtherNames)  # type: ignore[arg-type]
