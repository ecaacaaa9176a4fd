# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The native library, with its log connected to ``logging.getLogger("msprobe")``.

Python code of the package imports the native core from here and nowhere else, so that the connection is made
before native code runs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import sys
from typing import TYPE_CHECKING

from msprobe import _core as core
from msprobe._core import (
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

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

__all__ = [
    "Error",
    "FormatError",
    "InternalError",
    "InvalidArgument",
    "IoError",
    "MalformedConfig",
    "NothingToCompare",
    "UnsupportedError",
    "__version__",
    "core",
    "import_torch",
    "log",
    "log_on_stderr",
    "torch_adapter",
]

log = logging.getLogger("msprobe")

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)  # by the number of the native level
_FORMAT = logging.Formatter("msprobe: %(levelname)s: %(message)s")


def _to_logging(level: int, message: str) -> None:
    log.log(_LEVELS[level], "%s", message)


core.set_log_sink(_to_logging)


class _LastResort(logging.StreamHandler):  # type: ignore[type-arg]
    """Standard error, for a process in which nothing else shows what is logged."""

    def emit(self, record: logging.LogRecord) -> None:
        if log.handlers == [self] and not (log.propagate and logging.getLogger().handlers):
            super().emit(record)


def _apply_environment() -> None:
    """MSPROBE_LOG_LEVEL: the least level that is logged, 0 debug, 1 info, 2 warning, 3 error, 4 nothing.
    Where it is not set, the level is that of the application, as usual for a library.
    """
    text = os.environ.get("MSPROBE_LOG_LEVEL", "")
    if text in ("0", "1", "2", "3", "4"):
        log.setLevel((*_LEVELS, logging.CRITICAL + 1)[int(text)])
        handler = _LastResort()
        handler.setFormatter(_FORMAT)
        log.addHandler(handler)
    elif text:
        log.warning("MSPROBE_LOG_LEVEL: expected a number from 0 to 4, found %r: it is ignored", text)


_apply_environment()


@contextlib.contextmanager
def log_on_stderr(level: str) -> Iterator[None]:
    """For commands: shows what is logged on standard error, one line each."""
    handler = logging.StreamHandler()
    handler.setLevel(level)
    handler.setFormatter(_FORMAT)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def import_torch() -> ModuleType:
    """The module ``torch``. Raises UnsupportedError where it cannot be imported."""
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a library of torch that cannot be loaded
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        raise UnsupportedError(
            "this part of msprobe works inside a training program and needs torch, which "
            + ("is not installed" if missing else f"cannot be imported ({error})")
            + f" in the environment of {sys.executable}"
        ) from error
    return torch


def torch_adapter() -> ModuleType:
    """The module ``msprobe._torch``, or where it does not fit this torch what does the same by way of Python;
    it needs torch, and only code inside a training process asks for it.

    Raises UnsupportedError where torch is missing, where a module that fits cannot be loaded, and where torch
    has not what recording through Python needs.
    """
    torch = import_torch()
    built = core.built_with_torch
    # Before it is loaded: its symbols may be there in another torch, and mean something else.
    if (
        built is None
        or _release(built) != _release(torch.__version__)
        or os.environ.get(_RECORDER) == "python"
    ):
        return _python_adapter(torch.__version__)
    try:
        from msprobe import _torch
    except ImportError as error:
        raise UnsupportedError(
            f"msprobe._torch, built with torch {built}, cannot be loaded with torch {torch.__version__} "
            f"({error}): {_again(torch.__version__)}"
        ) from error
    return _torch


_RECORDER = "MSPROBE_RECORDER"  # "python": as if no native recorder fitted
_PYTHON_ADAPTER = "msprobe.frameworks.torch.adapter"  # found by name: nothing below knows a framework


@functools.cache
def _python_adapter(found: str) -> ModuleType:
    built = core.built_with_torch
    what = "without torch" if built is None else f"with torch {built}"
    log.warning(
        "this msprobe was built %s, found torch %s: it records through Python, which costs more time "
        "(docs/limits.md); for the native recorder %s",
        what,
        found,
        _again(found),
    )
    try:
        return importlib.import_module(_PYTHON_ADAPTER)
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(f"torch {found} cannot be recorded ({error}): {_again(found)}") from error


def _again(found: str) -> str:
    return (
        f"install the wheel msprobe-...+torch{'.'.join(_release(found))} in the environment of this torch, "
        "or in a clone `pip install . --no-build-isolation`"
    )


def _release(version: str) -> list[str]:
    """Major and minor number; between these releases the binary interface of torch changes."""
    return version.split(".")[:2]
