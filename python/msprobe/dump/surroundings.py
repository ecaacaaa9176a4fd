# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of modules: what surrounds a step and is no tensor of it."""

from __future__ import annotations

import functools
import json
import operator
import sys
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msprobe.files.credentials import concealed_argument
from msprobe.training.json_text import Json
from msprobe.training.torch_state import OMITTED, plain

if TYPE_CHECKING:
    from torch import nn

    from msprobe.dump.training_state_file import TrainingStateFile


class ModuleSettings:
    """Mode and settings of modules: what their attributes hold. Properties are not asked, they run code.

    The text of a module is made once, and again when an attribute is another than in the step before.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}  # by id: for another module, marks and text would be the same

    def text(self, path: str, module: nn.Module, report: TrainingStateFile) -> Json:
        """Call it inside of report.noting()."""
        attributes = object.__getattribute__(module, "__dict__")
        # A layer without bias has the name `bias` with None.
        parameters = {
            name: parameter is not None for name, parameter in attributes.get("_parameters", {}).items()
        }
        names = tuple(attributes)
        known = self._known.get(id(module))
        if known is not None and known.kind is type(module) and known.names == names:
            marks = [_mark(attributes[name]) for name in known.asked]
            if known.parameters == parameters and all(map(operator.is_, marks, known.marks)):
                return known.text
        asked = [name for name in names if name == "training" or not name.startswith("_")]
        marks = [_mark(attributes[name]) for name in asked]
        found = {}
        whole = True
        for name in asked:
            try:  # not report.noting(): there are thousands of attributes
                value = plain(attributes[name])
                found[name] = concealed_argument(name, value) if isinstance(value, str) else value
            except Exception as error:
                report.note_error(f"module {path!r}, attribute {name!r}", error)
                whole = False
        training = found.pop("training", None)
        content = {
            "class": f"{type(module).__module__}.{type(module).__qualname__}",
            "training": training,
            "settings": {name: value for name, value in found.items() if value is not OMITTED},
            "parameters": parameters,
        }
        text = Json(json.dumps(content))
        if whole:
            self._known[id(module)] = _Known(type(module), names, asked, marks, parameters, text)
        return text


@dataclass(frozen=True, slots=True)
class _Known:
    kind: type
    names: tuple[str, ...]  # of all attributes
    asked: list[str]
    marks: list[Any]  # of those asked
    parameters: dict[str, bool]
    text: Json


def _mark(value: object) -> Any:
    """Something that is the same object as long as plain(value) is the same. It keeps nothing alive that is
    large, or that the program expects to end.
    """
    kind = type(value)
    if kind in _unchanging():
        return value
    if kind is tuple:
        items: Any = value
        return value if all(type(item) in _unchanging() for item in items) else object()
    if kind in _FUNCTIONS:
        return sys.intern(plain(value))
    return object() if issubclass(kind, _ASKED) else kind


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
# Of these and their subclasses plain() asks for the content.
_ASKED = (int, float, complex, str, tuple, list)


@functools.cache
def _unchanging() -> frozenset[type]:
    import torch

    return frozenset({type(None), bool, int, float, complex, str, torch.dtype, torch.device})
