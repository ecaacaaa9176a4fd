# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""MindSpore, in dynamic graphs (PYNATIVE_MODE)."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from msprobe.native import UnsupportedError, log

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import ModuleType


def import_mindspore() -> ModuleType:
    """The module ``mindspore``. Raises UnsupportedError where it cannot be imported."""
    try:
        mindspore = importlib.import_module("mindspore")
    except (ImportError, OSError) as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "mindspore"
        raise UnsupportedError(
            "this part of msprobe works inside a training program and needs MindSpore, which "
            + ("is not installed" if missing else f"cannot be imported ({error})")
            + f" in the environment of {sys.executable}"
        ) from error
    _warn_of_numpy(mindspore)
    return mindspore


def array_of(tensor: Any) -> Any:
    """On the host; of bfloat16, which NumPy has not, as float32."""
    plain = tensor.astype(import_mindspore().float32) if str(tensor.dtype) == "BFloat16" else tensor
    return plain.asnumpy()


def without_graph() -> AbstractContextManager[None]:
    """Inside, what is computed has no gradient."""
    found: AbstractContextManager[None] = importlib.import_module("mindspore.common.api")._no_grad()
    return found


def _warn_of_numpy(mindspore: ModuleType) -> None:
    """MindSpore is built for numpy 1: with numpy 2 it cannot give a bfloat16 tensor to numpy."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not numpy.__version__.startswith("2.") or getattr(mindspore, "_msprobe_told", False):
        return
    mindspore._msprobe_told = True  # type: ignore[attr-defined]
    log.warning(
        "MindSpore %s beside numpy %s: bfloat16 tensors cannot be turned into arrays; install numpy<2",
        getattr(mindspore, "__version__", "?"),
        numpy.__version__,
    )
