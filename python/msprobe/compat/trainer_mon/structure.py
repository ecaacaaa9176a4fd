# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a model is made of, as TrainerMon tells it once: module_struct.json and stack_info.csv."""

from __future__ import annotations

import csv
import io
import json
import sys
import traceback
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.csv_cells import guarded

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from msprobe.hooks.functions import Removable


class Structure:
    """Shapes and types of what each module gets and gives, forward and backward, of its first call."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, dict[str, str]]] = {}
        self._handles: list[Removable] = []

    def watch(self, module: nn.Module, name: str) -> None:
        def forward(_: Any, args: Any, kwargs: Any, output: Any) -> None:
            import torch

            tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
            self._note(name, input=described(tensors), output=described(output))

        def backward(_: Any, inputs: Any, outputs: Any) -> None:
            self._note(name, input_grad=described(inputs), output_grad=described(outputs))

        self._handles.append(module.register_forward_hook(forward, with_kwargs=True))
        self._handles.append(module.register_full_backward_hook(backward))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def write(self, path: Path) -> None:
        make_directory(path.parent)
        write_text(path, json.dumps(self.found, indent=2))

    def _note(self, name: str, **parts: dict[str, str]) -> None:
        known = self.found.setdefault(name, {})
        for part, description in parts.items():
            known.setdefault(part, description)


def described(value: Any) -> dict[str, str]:
    import torch

    def one(item: Any) -> str:
        if isinstance(item, torch.Tensor):
            return f"size={tuple(item.shape)}, dtype={item.dtype}"
        return str(type(item))

    if isinstance(value, torch.Tensor):
        return {"config": "tensor", "tensor": one(value)}
    if isinstance(value, (tuple, list)):
        items = {str(index): one(item) for index, item in enumerate(value)}
        return {"config": f"{type(value).__name__}[{len(value)}]", **items}
    return {"config": str(type(value))}


class Stacks:
    """The call stack of each module's first call."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self._handles: list[Removable] = []

    def watch(self, module: nn.Module, name: str) -> None:
        def forward(*_: Any) -> None:
            if name not in self._found:
                self._found[name] = _stack_text()

        self._handles.append(module.register_forward_hook(forward))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def write(self, path: Path) -> None:
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["module_name", "stack_info"])
        writer.writerows((guarded(name), stack) for name, stack in self._found.items())
        write_text(path, table.getvalue())


def _stack_text() -> str:
    """From the call of the hook outward."""
    frame = sys._getframe(2)
    lines = []
    for summary in reversed(traceback.extract_stack(frame)):
        place = f"File {summary.filename}, line {summary.lineno}, in {summary.name}"
        lines.append(f"{place}, \n {summary.line} \n")
    return "".join(lines)
