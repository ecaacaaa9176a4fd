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
from msprobe.files.credentials import concealed_code
from msprobe.files.csv_cells import guarded
from msprobe.hooks.modules import ModuleHooks

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from msprobe.hooks.functions import Removable


class _Calls(ModuleHooks):
    """The calls of watched modules, by torch's global hooks: a module may be scripted, which takes none."""

    def __init__(self) -> None:
        super().__init__(lambda *_: None, self._after)
        self._names: dict[int, tuple[Any, str]] = {}  # by id(); the module is kept alive

    def watch(self, module: nn.Module, name: str) -> None:
        self._names.setdefault(id(module), (module, name))

    def name_of(self, module: Any) -> str | None:
        """None: it is not watched."""
        known = self._names.get(id(module))
        return None if known is None else known[1]

    def called(self, name: str, given: tuple[Any, ...], output: Any) -> None:
        raise NotImplementedError

    def _after(self, module: Any, args: Any, kwargs: Any, output: Any = None) -> None:
        name = self.name_of(module)
        if name is not None:
            self.called(name, (*args, *kwargs.values()), output)


class Structure(_Calls):
    """Shapes and types of what each module gets and gives, forward and backward, of its first call."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, dict[str, dict[str, str]]] = {}
        self._backward: Removable | None = None

    def put(self) -> None:
        from torch.nn.modules.module import register_module_full_backward_hook

        super().put()
        self._backward = register_module_full_backward_hook(self._after_backward)

    def take(self) -> None:
        super().take()
        if self._backward is not None:
            self._backward.remove()

    def called(self, name: str, given: tuple[Any, ...], output: Any) -> None:
        import torch

        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        self._note(name, input=described(tensors), output=described(output))

    def _after_backward(self, module: Any, inputs: Any, outputs: Any) -> None:
        name = self.name_of(module)
        if name is not None:
            self._note(name, input_grad=described(inputs), output_grad=described(outputs))

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


class Stacks(_Calls):
    """The call stack of each module's first call."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, str] = {}

    def called(self, name: str, given: tuple[Any, ...], output: Any) -> None:
        if name not in self._found:
            self._found[name] = _stack_text()

    def write(self, path: Path) -> None:
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["module_name", "stack_info"])
        writer.writerows((guarded(name), stack) for name, stack in self._found.items())
        write_text(path, table.getvalue())


def _stack_text() -> str:
    """From the call of the hook outward."""
    frame = sys._getframe(3)
    lines = []
    for summary in reversed(traceback.extract_stack(frame)):
        place = f"File {summary.filename}, line {summary.lineno}, in {summary.name}"
        lines.append(f"{place}, \n {concealed_code(summary.line or '')} \n")
    return "".join(lines)
