# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of Cells and optimizers, as diagnosis.json has them (docs/formats/diagnosis.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_TEXT = 200
_LONGEST_LIST = 32
_OMITTED: Any = object()
# Of every Cell: how it runs, and not what it computes.
_OF_ALL_CELLS = frozenset(
    (
        "arguments_key", "bprop_debug", "cell_init_args", "cell_type", "compiled", "enable_backward_hook",
        "forward_static_order", "grad_ops_label", "has_bprop", "instance_name", "is_top_cell", "jit_config",
        "mixed_precision_type", "parallel_parameter_merge_net_dict", "requires_grad", "saved_dynamic_shape",
        "skip_auto_parallel_compile", "sub_graph", "training",
    )
)  # fmt: skip
# Attributes of an optimizer, and the hyper-parameters of PyTorch that they are.
_HYPER = {
    "beta1": "betas.0",
    "beta2": "betas.1",
    "eps": "eps",
    "momentum": "momentum",
    "dampening": "dampening",
    "nesterov": "nesterov",
    "use_nesterov": "nesterov",
    "use_amsgrad": "amsgrad",
}


def settings_of(named_cells: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    """Path -> class, mode and settings."""
    return {path: _cell(cell) for path, cell in named_cells}


def _cell(cell: Any) -> dict[str, Any]:
    found = {}
    for name, value in vars(cell).items():
        if name.startswith("_") or name in _OF_ALL_CELLS:
            continue
        short = plain(value)
        if short is not _OMITTED:
            found[name] = short
    # Where a Cell keeps a setting in the Primitive that it calls.
    for value in vars(cell).values():
        if type(value).__name__ in ("Softmax", "LogSoftmax") and hasattr(value, "axis"):
            found["axis"] = plain(value.axis[0] if isinstance(value.axis, (tuple, list)) else value.axis)
    return {
        "class": f"{type(cell).__module__}.{type(cell).__qualname__}",
        "training": bool(cell.training),
        "settings": found,
        "parameters": {name: value is not None for name, value in own_parameters(cell).items()},
    }


def own_parameters(module: Any) -> dict[str, Any]:
    """Of a Cell, or of a module of MSAdapter, whichever keeps them."""
    held = vars(module)
    found: dict[str, Any] = held.get("_params") or held.get("_parameters") or {}
    return found


def plain(value: Any) -> Any:
    """A setting as JSON has it, or _OMITTED."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return _OMITTED if os.path.isabs(value) else value[:_LONGEST_TEXT]
    if isinstance(value, (tuple, list)) and len(value) <= _LONGEST_LIST:
        items = [plain(item) for item in value]
        return _OMITTED if any(item is _OMITTED for item in items) else items
    return _OMITTED


def hyper_parameters(optimizer: Any, names: list[str]) -> dict[str, Any]:
    """Class and groups of one step. names: of its parameters."""
    groups = getattr(optimizer, "param_groups", None)
    found = (
        [_of_group(group) for group in groups]
        if isinstance(groups, (list, tuple)) and groups and isinstance(groups[0], dict)
        else [_of_attributes(optimizer)]
    )
    kind = type(optimizer)
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "groups": [
            {
                "parameters": names if len(found) == 1 else [],
                "hyper": {k: {"value": v} for k, v in one.items()},
            }
            for one in found
        ],
    }


def _of_group(group: dict[str, Any]) -> dict[str, Any]:
    """mindspore.mint.optim and mindspore.experimental.optim have PyTorch's words."""
    found = {}
    for key, value in group.items():
        if key == "params":
            continue
        values = (
            {f"{key}.{i}": one for i, one in enumerate(value)} if isinstance(value, tuple) else {key: value}
        )
        found.update({name: number(one) for name, one in values.items()})
    return {key: value for key, value in found.items() if value is not _OMITTED}


def _of_attributes(optimizer: Any) -> dict[str, Any]:
    """mindspore.nn: learning rate and decay may follow the step, and may be those of groups."""
    found = {"lr": _first(optimizer.get_lr()), "weight_decay": _first(optimizer.get_weight_decay())}
    for attribute, name in _HYPER.items():
        if (value := getattr(optimizer, attribute, None)) is not None:
            found[name] = value
    return {key: one for key, value in found.items() if (one := number(value)) is not _OMITTED}


def _first(value: Any) -> Any:
    """Of several learning rates all where they are the same, else none."""
    if not isinstance(value, (tuple, list)):
        return value
    several = [number(one) for one in value]
    return several[0] if several and all(one == several[0] for one in several) else _OMITTED


def number(value: Any) -> Any:
    """A tensor with one element as the shortest text of its dtype reads: 0.01, not 0.009999999776."""
    if hasattr(value, "asnumpy"):
        array = value.asnumpy()
        if array.size != 1:
            return _OMITTED
        element = array.reshape(-1)[0]
        return float(str(element)) if array.dtype.kind == "f" else element.item()
    return plain(value)
