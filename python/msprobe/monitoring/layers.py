# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names in a model as everybody knows them."""

from __future__ import annotations

from typing import Any

from msprobe.training.model_parts import named_modules


class PlainNames:
    """The names of a model's parts: those without wrappers, and the numbers that layers have in the whole
    model where this process has some of them, as stages of a pipeline in Megatron do (`layer_number`, from 1
    on).
    """

    def __init__(self, model: Any) -> None:
        self._moved: dict[str, str] = {}
        for name, module in named_modules(model):
            number = getattr(module, "layer_number", None)
            head, _, last = name.rpartition(".")
            if isinstance(number, int) and last.isdecimal() and number - 1 != int(last):
                self._moved[f"{head}.{last}"] = f"{head}.{number - 1}"

    def of(self, name: str) -> str:
        plain = name.removesuffix("._flat_param")  # of FSDP: that of a module
        if self._moved:
            parts = plain.split(".")
            for count in range(len(parts), 0, -1):
                moved = self._moved.get(".".join(parts[:count]))
                if moved is not None:
                    return ".".join([moved, *parts[count:]])
        return plain
