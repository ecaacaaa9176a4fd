# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The functions of a program that are running now, and the tensors that they hold."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections import UserDict
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from msprobe.training.measurement import has_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_MOST_FRAMES = 300
_HAS_FAST_LOCALS = 0x1  # flag of the code of a function: its local names are no dictionary
_REFERENCES_OF_OURS = 3  # to the variables of a function: of its frame, of ours, of the question for them
# Torch and Python itself, and what starts a program: their functions hold nothing of a training.
_LIBRARIES_WITHOUT = frozenset(
    (*getattr(sys, "stdlib_module_names", ()), "IPython", "_pytest", "absl", "click", "fire", "hydra",
     "ipykernel", "jsonargparse", "msprobe", "pluggy", "ray", "torch", "traitlets", "typer", "tyro", "xdist")
)  # fmt: skip

_MOST_ITEMS = 64  # a container with more is a data set
_DEEPEST = 2  # containers in the variable of a function: a batch of micro-batches


def frames_of_program() -> Iterator[FrameType]:
    """The innermost first, up to the main script: what stands above started it."""
    main = sys.modules.get("__main__")
    names = vars(main) if main is not None else {}
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _LIBRARIES_WITHOUT:
            yield frame
        if frame.f_globals is names and frame.f_code.co_name == "<module>":
            return
        frame = frame.f_back


@contextlib.contextmanager
def variables_of(frame: FrameType) -> Iterator[dict[str, Any]]:
    """A copy of the variables of a function, which keeps nothing alive behind `with`."""
    values = frame.f_locals
    try:
        yield dict(values)
    finally:
        # Before Python 3.13 a function has one dictionary for all who ask: it would keep alive what is in it,
        # and is the program's where that has asked for locals().
        is_ours = sys.getrefcount(values) <= _REFERENCES_OF_OURS
        if is_ours and frame.f_code.co_flags & _HAS_FAST_LOCALS and isinstance(values, dict):
            values.clear()


def held_tensors(most: int) -> dict[str, Any]:
    """Tensors that the running functions hold in their variables and in containers there, by their names,
    those of the innermost function first: a batch, targets, what was rolled out. What a gradient flows
    through was computed in the step, and is left out.

    most: bytes of all; a tensor that goes beyond is left out.
    """
    found: dict[str, Any] = {}
    known: set[int] = set()
    for frame in frames_of_program():
        with variables_of(frame) as variables:
            for name, value in variables.items():
                for path, tensor in _tensors_in(name, value, 0):
                    size = int(tensor.numel()) * int(tensor.element_size())
                    if id(tensor) not in known and path not in found and size <= most:
                        known.add(id(tensor))
                        found[path] = tensor
                        most -= size
    return found


def _tensors_in(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    import torch

    if type(value) is torch.Tensor:
        if not value.requires_grad and has_numbers(value):
            yield path, value
    elif depth < _DEEPEST:
        for name, item in _items(value):
            yield from _tensors_in(f"{path}.{name}", item, depth + 1)


def attributes_of(value: Any) -> dict[str, Any]:
    """Without a look at properties, or at what a class makes of its attributes."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return attributes if isinstance(attributes, dict) else {}


def _items(value: Any) -> list[tuple[str, Any]]:
    """Of a container; nothing of what is none. Nothing of the program is run for it: its classes may compute
    what they are asked for.
    """
    kind: Any = type(value)
    form = _form_of(kind)
    if form is UserDict:
        value, form = attributes_of(value).get("data"), dict
    if form is dict and issubclass(type(value), dict):
        if dict.__len__(value) <= _MOST_ITEMS:
            return [(key, item) for key, item in dict.items(value) if isinstance(key, str)]
    elif form in (list, tuple):
        if form.__len__(value) <= _MOST_ITEMS:
            names = getattr(kind, "_fields", None) or map(str, range(_MOST_ITEMS))
            return list(zip(names, form.__iter__(value)))
    elif form is object:
        attributes = attributes_of(value)
        return [(one.name, attributes[one.name]) for one in fields(kind) if one.name in attributes]
    return []


@functools.lru_cache(maxsize=512)
def _form_of(kind: type) -> Any:
    """Which container a class is, of dict, UserDict, list, tuple; object: a dataclass. None: none."""
    form = next((form for form in (dict, UserDict, list, tuple) if issubclass(kind, form)), None)
    return object if form is None and is_dataclass(kind) else form
