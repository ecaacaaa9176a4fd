# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Leads calls of the listed functions of torch to an observer, each in the way that fits it."""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any, Protocol

from msprobe.hooks.api_list import ListedApi, listed_apis
from msprobe.hooks.functions import (
    AttributeExchange,
    CodeExchange,
    Exchange,
    HiddenFromQuestions,
    ModeExchange,
    OperatorExchange,
    without_modes,
)
from msprobe.native import torch_adapter

if TYPE_CHECKING:
    from collections.abc import Iterator

# Operators whose call reaches a mode under their own name; others arrive as the method of the same effect.
_TOLD_BY_NAME = frozenset(
    f"__{name}__"
    for name in (
        "and", "bool", "eq", "iand", "ilshift", "ior", "irshift", "ixor", "lshift", "nonzero", "or", "rshift",
        "setitem", "xor",
    )
)  # fmt: skip


class FunctionObserver(Protocol):
    """What calls are led to: `_torch.DumpSession`, `_torch.FunctionInterventions`."""

    def observe_function(self, function: object, name: str) -> None: ...

    def wrapper(self, original: object, name: str, distributed: bool = False) -> Any: ...

    def function_mode(self) -> Any: ...

    def push_mode(self, mode: object) -> None: ...


def function_exchanges(observer: FunctionObserver) -> list[Exchange]:
    """One exchange for each listed function that a mode does not see well enough, and the mode."""
    exchanges = list(_listed(observer))
    exchanges += [CodeExchange(copy, without_modes) for copy in _copies_of_shards()]
    exchanges.append(HiddenFromQuestions(torch_adapter().call_without_mode))
    exchanges.append(ModeExchange(observer.function_mode(), observer.push_mode))
    return exchanges


def _copies_of_shards() -> list[types.FunctionType]:
    """Functions inside of FSDP2 that cut up buffers before anything is in them. What they call is none of the
    model's, and the memory that it is called with differs between two runs that are the same.
    """
    names = ("all_gather_copy_in_cuda", "_get_param_all_gather_inputs", "foreach_all_gather_copy_out")
    places = (
        "torch.distributed.fsdp._fully_shard",
        "torch.distributed._composable.fsdp",
    )  # the 2nd: torch 2.5
    found = [
        vars(sys.modules[module]).get(name)
        for module in (f"{place}._fsdp_collectives" for place in places)
        if module in sys.modules
        for name in names
    ]
    return [function for function in found if isinstance(function, types.FunctionType)]


def _listed(observer: FunctionObserver) -> Iterator[Exchange]:
    import torch

    other_operators = {id(torch.Tensor.__rtruediv__)}  # is __rdiv__ as well, which Python no longer calls
    operators = {}
    for api in listed_apis():
        if id(api.function) in other_operators:
            continue
        if isinstance(api.function, types.FunctionType):
            yield CodeExchange(api.function, functools.partial(_wrap, observer, api))
        elif not _hides_its_name(api):
            observer.observe_function(api.function, api.name)
        elif OperatorExchange.can_exchange(torch.Tensor, api.attribute):
            operators[api.attribute] = _wrap(observer, api, api.function)
        else:
            yield AttributeExchange(torch.Tensor, api.attribute, _wrap(observer, api, api.function))
    yield OperatorExchange(torch.Tensor, operators, torch_adapter().set_class_attributes)


def _wrap(observer: FunctionObserver, api: ListedApi, original: Any) -> Any:
    return observer.wrapper(original, api.name, api.distributed)


def _hides_its_name(api: ListedApi) -> bool:
    return api.name.startswith("Tensor.__") and api.attribute not in _TOLD_BY_NAME
