# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The native library, with its log connected to ``logging.getLogger("msprobe")``.

Python code of the package imports the native core from here and nowhere else, so that the connection is made
before native code runs.
"""

from __future__ import annotations

import contextlib
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
    """The module ``msprobe._torch``; it needs torch, and only code inside a training process asks for it.

    Raises UnsupportedError where torch is missing, and where the module was not built, or was built for
    another torch.
    """
    torch = import_torch()
    release = ".".join(_release(torch.__version__))
    again = (
        f"install the wheel msprobe-...+torch{release} in the environment of this torch, "
        "or in a clone `pip install . --no-build-isolation`"
    )
    built = core.built_with_torch
    if built is None:
        raise UnsupportedError(
            f"this msprobe was built without torch, expected one built with torch {torch.__version__}: "
            + again
        )
    # Before it is loaded: its symbols may be there in another torch, and mean something else.
    if _release(built) != _release(torch.__version__):
        raise UnsupportedError(
            f"msprobe._torch was built with torch {built}, found torch {torch.__version__}: {again}"
        )
    try:
        from msprobe import _torch
    except ImportError as error:
        raise UnsupportedError(
            f"msprobe._torch, built with torch {built}, cannot be loaded with torch {torch.__version__} "
            f"({error}): {again}"
        ) from error
    return _torch


def _release(version: str) -> list[str]:
    """Major and minor number; between these releases the binary interface of torch changes."""
    return version.split(".")[:2]
