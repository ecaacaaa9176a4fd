# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of what start() and save() are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msprobe.engines import COMPILED
from msprobe.native import InvalidArgument
from msprobe.training import model_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


def checked_module(model: object, key: str) -> nn.Module:
    """The model itself, or the first of several."""
    from torch import nn

    if isinstance(model, (list, tuple)) and model:
        model = model[0]
    if not isinstance(model, nn.Module):
        raise InvalidArgument(
            f"start({key}=...): expected a torch.nn.Module as model, found {type(model).__name__}"
        )
    return model


def checked_range(token_range: object) -> tuple[int, int]:
    """First and last call."""
    if isinstance(token_range, list) and len(token_range) == 2:
        first, last = token_range
        if type(first) is int and type(last) is int and 0 <= first <= last:
            return first, last
    raise InvalidArgument(
        f"start(token_range=...): expected a list of two integers, 0 <= first <= last, found {token_range!r}"
    )


def _roots(model: object) -> Iterator[tuple[str, nn.Module]]:
    """The models, each with the beginning of the paths inside."""
    from torch import nn

    expected = "start(model): levels L0 and mix expected a torch.nn.Module, or a list or tuple of modules"
    if isinstance(model, nn.Module):
        models: list[tuple[str, object]] = [("", model)]
    elif isinstance(model, (list, tuple)) and model:
        models = [(f"{index}.", item) for index, item in enumerate(model)]
    else:
        raise InvalidArgument(f"{expected}, found {type(model).__name__}")
    for prefix, root in models:
        if not isinstance(root, nn.Module):
            raise InvalidArgument(f"{expected}, found a {type(root).__name__} in the list")
        yield prefix, root


def named_modules(model: object) -> Iterator[tuple[str, nn.Module]]:
    """The modules below the model, by their names in records, or below each model of a list, whose index then
    begins the path.
    """
    import torch

    for prefix, root in _roots(model):
        compiled = model_parts.compiled_around(root)
        for name, module in model_parts.named_modules(root):
            if name and not isinstance(module, torch.jit.ScriptModule):
                # A lone surrogate has no UTF-8, which files are in.
                path = (prefix + name).encode("utf-8", "backslashreplace").decode()
                yield f"{path}.{type(module).__name__}", compiled.get(id(module), module)


def compiled_models(model: object) -> Iterator[tuple[str, nn.Module]]:
    """Those of the models that are compiled as a whole, by the name in records that torch.compile() gives to
    what is inside. No call inside of them is seen, so what they get and give is all that can be recorded.
    """
    for prefix, root in _roots(model):
        for outer in model_parts.chain(root):
            inner = model_parts.parts_of(outer).get(COMPILED, outer)
            if inner is not outer or getattr(outer, "_compiled_call_impl", None) is not None:
                yield f"{prefix}{COMPILED}.{type(inner).__name__}", outer
                break


def unsavable(variable: object, name: object, save_backward: object) -> str:
    """Why a value cannot be saved, or an empty text."""
    if not isinstance(name, str):
        return f"expected a str as the name, found {name!r}"
    if not isinstance(save_backward, bool):
        return f"expected a bool as save_backward, found {save_backward!r}"
    return _unsavable_value(variable, 0)


def _unsavable_value(value: object, depth: int) -> str:
    from torch import Tensor

    if depth > 50:
        return "expected values nested at most 50 deep"
    if isinstance(value, (list, tuple)):
        return next(filter(None, (_unsavable_value(item, depth + 1) for item in value)), "")
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return "expected str as keys of a dict"
        return next(filter(None, (_unsavable_value(item, depth + 1) for item in value.values())), "")
    if not isinstance(value, (Tensor, int, float, str)):
        found = type(value).__name__
        return f"expected tensors, int, float, str, or list, tuple and dict of them, found {found}"
    return ""
