# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The native library, with its log connected to ``logging.getLogger("msprobe")``.

Python code of the package imports the native core from here and nowhere else, so that the connection is made
before native code runs.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from msprobe import _core as core
from msprobe._core import (
    Error,
    FormatError,
    InternalError,
    InvalidArgument,
    IoError,
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
    "NothingToCompare",
    "UnsupportedError",
    "__version__",
    "core",
    "log",
    "log_on_stderr",
    "torch_adapter",
]

log = logging.getLogger("msprobe")

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)  # by the number of the native level


def _to_logging(level: int, message: str) -> None:
    log.log(_LEVELS[level], "%s", message)


core.set_log_sink(_to_logging)


@contextlib.contextmanager
def log_on_stderr(level: str) -> Iterator[None]:
    """For commands: shows what is logged on standard error, one line each."""
    handler = logging.StreamHandler()
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter("msprobe: %(levelname)s: %(message)s"))
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def torch_adapter() -> ModuleType:
    """The module ``msprobe._torch``; it needs torch, and only code inside a training process asks for it.

    Raises UnsupportedError where it was not built, or was built for another torch.
    """
    import torch

    try:
        from msprobe import _torch
    except ImportError as error:
        raise UnsupportedError(
            f"msprobe._torch cannot be loaded with torch {torch.__version__} ({error}): install msprobe "
            "again with `pip install . --no-build-isolation` in the environment of this torch"
        ) from error
    return _torch
