# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A fault in the source of a library: the text of one function is changed, as an update of the library would
do it.
"""

from __future__ import annotations

import importlib
import inspect
import linecache
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LIBRARY = "transformers.models.{0}.modeling_{0}"


@dataclass(frozen=True)
class Edit:
    """In `function` of the model's source file (`eager_attention_forward`, or `LlamaMLP.forward`), each `old`
    becomes `new`; `where`: in this one module only, else wherever the function is called.
    """

    function: str
    old: str
    new: str
    where: str = ""
    count: int = 1
    """How many of the places with `old` are changed, from the first one."""


@dataclass(frozen=True)
class SourceFault:
    name: str
    model: str
    dtype: str
    edit: Edit
    place: str
    """Regular expression; found in what the answer says of the first cause."""
    step: int = 0

    @property
    def is_rounding(self) -> bool:
        """What is rounded once more: beside another device's rounding nobody can tell it."""
        return self.name == "llama_softmax_low"

    def plant(self, model: Any, step: int) -> None:
        """At its step."""
        if step == self.step:
            plant(self.edit, self.model, model)


def plant(edit: Edit, model_name: str, model: Any) -> None:
    """Changes the function, in a model that is built already."""
    module = importlib.import_module(LIBRARY.format(model_name))
    owner_name, _, name = edit.function.rpartition(".")
    owner = getattr(module, owner_name) if owner_name else module
    changed = _changed(getattr(owner, name), edit)
    if edit.where:
        part = model.get_submodule(edit.where)
        assert type(part) is owner, f"{edit.where} is a {type(part).__name__}"
        part.__class__ = type(owner.__name__, (owner,), {"__module__": owner.__module__, name: changed})
        part.__class__.__qualname__ = owner.__qualname__
    else:
        setattr(owner, name, changed)


def _changed(function: Any, edit: Edit) -> Any:
    """The same function with other text, under the name of a file that shows it."""
    original = inspect.unwrap(function)
    source = textwrap.dedent(inspect.getsource(original))
    source = re.sub(r"\A(@[^\n]*\n)+", "", source)
    assert source.count(edit.old) >= edit.count, f"{edit.function} has no {edit.old!r}"
    source = source.replace(edit.old, edit.new, edit.count)
    file = f"<changed {edit.function}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {}
    exec(compile(source, file, "exec"), original.__globals__, space)
    return space[original.__name__]


def faults_of(model: str) -> Callable[..., SourceFault]:
    """Makes faults of one model."""

    def fault(
        name: str, dtype: str, function: str, old: str, new: str, place: str, where: str = ""
    ) -> SourceFault:
        return SourceFault(f"{model}_{name}", model, dtype, Edit(function, old, new, where), place)

    return fault


F32, BF16 = "float32", "bfloat16"
