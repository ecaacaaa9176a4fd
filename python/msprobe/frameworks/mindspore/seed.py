# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""seed_all of MindSpore: makes a training run repeatable, so that two runs can be compared."""

from __future__ import annotations

import contextlib
import functools
import os
import random
from typing import TYPE_CHECKING, Any

from msprobe.frameworks.mindspore import import_mindspore
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_SEED = 2**32 - 1  # what NumPy takes
_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d")
_CELLS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d")
# On what stands in place of something of MindSpore.
_REPLACED = "_msprobe_replaced"


def seed_all(seed: int = 1234, mode: bool = False, rm_dropout: bool = True) -> None:
    """Seeds every random generator of this process. Call it at the beginning of the script, before the model
    is built.

    seed: 0 to 2^32-1. mode: whether MindSpore must use deterministic algorithms, which are slower.
    rm_dropout: whether dropout does nothing from now on: Cells of mindspore.nn and mindspore.mint.nn, and
    their functions as attributes of mindspore.ops and mindspore.mint.nn.functional. Primitives that a script
    makes itself (ops.Dropout) are not reached.

    Raises InvalidArgument for an argument of another type or a seed out of range; nothing is changed then.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _LARGEST_SEED:
        raise InvalidArgument(
            f'seed_all(): "seed": expected an integer from 0 to {_LARGEST_SEED}, found {seed!r}'
        )
    for name, value in (("mode", mode), ("rm_dropout", rm_dropout)):
        if not isinstance(value, bool):
            raise InvalidArgument(f'seed_all(): "{name}": expected True or False, found {value!r}')
    ms = import_mindspore()
    os.environ["PYTHONHASHSEED"] = str(seed)
    os.environ["HCCL_DETERMINISTIC"] = str(mode)
    random.seed(seed)
    with contextlib.suppress(ModuleNotFoundError):
        import numpy

        numpy.random.seed(seed)
    ms.set_seed(seed)
    ms.set_context(deterministic="ON" if mode else "OFF")
    if rm_dropout:
        _remove_dropout(ms)


def _remove_dropout(ms: Any) -> None:
    mint = getattr(ms, "mint", None)
    for home in (ms.ops, getattr(getattr(mint, "nn", None), "functional", None)):
        for name in _FUNCTIONS:
            function = getattr(home, name, None)
            if function is not None and not hasattr(function, _REPLACED):
                setattr(home, name, _without_effect(function))
    for home in (ms.nn, getattr(mint, "nn", None)):
        for name in _CELLS:
            cell = getattr(home, name, None)
            if isinstance(cell, type) and not hasattr(cell.construct, _REPLACED):  # type: ignore[attr-defined]
                cell.construct = _argument_itself(cell.construct)  # type: ignore[attr-defined]


def _without_effect(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def dropout(*args: Any, **kwargs: Any) -> Any:
        return args[0] if args else kwargs["input"]

    setattr(dropout, _REPLACED, original)
    return dropout


def _argument_itself(original: Callable[..., Any]) -> Callable[..., Any]:
    def construct(self: Any, x: Any) -> Any:
        return x

    setattr(construct, _REPLACED, original)
    return construct
