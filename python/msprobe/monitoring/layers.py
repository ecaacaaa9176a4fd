# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names in a model as everybody knows them."""

from __future__ import annotations

from typing import Any

# What wrappers put into the names of what they wrap.
_WRAPPERS = frozenset(("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_flat_param"))


def plain_name(name: str) -> str:
    """Without the names of wrappers."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


class PlainNames:
    """The names of a model's parts: plain_name(), and the numbers that layers have in the whole model where
    this process has some of them, as stages of a pipeline in Megatron do (`layer_number`, from 1 on).
    """

    def __init__(self, model: Any) -> None:
        self._moved: dict[str, str] = {}
        for name, module in model.named_modules():
            number = getattr(module, "layer_number", None)
            head, _, last = plain_name(name).rpartition(".")
            if isinstance(number, int) and last.isdecimal() and number - 1 != int(last):
                self._moved[f"{head}.{last}"] = f"{head}.{number - 1}"

    def of(self, name: str) -> str:
        plain = plain_name(name)
        if self._moved:
            parts = plain.split(".")
            for count in range(len(parts), 0, -1):
                moved = self._moved.get(".".join(parts[:count]))
                if moved is not None:
                    return ".".join([moved, *parts[count:]])
        return plain


def unwrapped(model: Any) -> Any:
    """What DistributedDataParallel and its like hold: names are the same then on one process and on many."""
    while True:
        inner = getattr(model, "module", None)
        children = [name for name, _ in model.named_children()]
        if children != ["module"] or inner is None or any(True for _ in model.parameters(recurse=False)):
            return model
        model = inner
