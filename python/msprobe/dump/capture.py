# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is hooked for a level, in one object that is installed at start() and gone after stop()."""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

from msprobe.dump.api_list import ListedApi, listed_apis
from msprobe.hooks.functions import (
    AttributeExchange,
    CodeExchange,
    Exchange,
    HiddenFromQuestions,
    Hooks,
    ModeExchange,
    OffWhileCompiled,
    OperatorExchange,
)
from msprobe.hooks.modules import ModuleCalls, ModuleHooks
from msprobe.native import torch_adapter
from msprobe.training.optimizer import OptimizerUpdates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from msprobe._torch import DumpSession

# Operators whose call reaches a mode under their own name; others arrive as the method of the same effect.
_TOLD_BY_NAME = frozenset(
    f"__{name}__"
    for name in (
        "and", "bool", "eq", "iand", "ilshift", "ior", "irshift", "ixor", "lshift", "nonzero", "or", "rshift",
        "setitem", "xor",
    )
)  # fmt: skip
_CLIPPING = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")


def make_hooks(
    session: DumpSession, level: str, custom: Sequence[Exchange] = (), compiled: Sequence[Exchange] = ()
) -> Hooks:
    """The hooks of a level, with those of functions registered by the user and of compiled modules."""
    exchanges: list[Exchange] = []
    if level in ("L1", "mix"):
        exchanges += [*function_exchanges(session), *custom]
    if level in ("L0", "mix"):
        exchanges.append(module_calls(session))
    if level == "mix":
        exchanges += _phases(session)
    return Hooks([*compiled, *exchanges, OffWhileCompiled(exchanges)])


def module_calls(session: DumpSession) -> Exchange:
    """The calls of watched modules, other than compiled ones."""
    return ModuleCalls(ModuleHooks(session.before_module, session.after_module), session.module_call)


def compiled_modules(session: DumpSession, modules: Iterable[Any]) -> list[Exchange]:
    """Modules compiled by `module.compile()` run no hook: what they are called through is exchanged."""
    return [
        AttributeExchange(
            module, "_compiled_call_impl", _observed(session, module, module._compiled_call_impl)
        )
        for module in modules
        if getattr(module, "_compiled_call_impl", None) is not None
    ]


def _observed(session: DumpSession, module: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        session.before_module(module, args)
        try:
            result = compiled(*args, **kwargs)
        except Exception:
            session.after_module(module, args, None)
            raise
        session.after_module(module, args, kwargs, result)
        return result

    return call


def function_exchanges(session: DumpSession) -> list[Exchange]:
    """One exchange for each listed function that a mode does not see well enough, and the mode."""
    exchanges = list(_listed(session))
    exchanges += [CodeExchange(copy, _without_mode) for copy in _copies_of_shards()]
    exchanges.append(HiddenFromQuestions(torch_adapter().call_without_mode))
    exchanges.append(ModeExchange(session.function_mode(), session.push_mode))
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


def _without_mode(original: Callable[..., Any]) -> Callable[..., Any]:
    without_mode = torch_adapter().call_without_mode

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return without_mode(functools.partial(original, *args, **kwargs))

    return call


def _listed(session: DumpSession) -> Iterator[Exchange]:
    import torch

    other_operators = {id(torch.Tensor.__rtruediv__)}  # is __rdiv__ as well, which Python no longer calls
    operators = {}
    for api in listed_apis():
        if id(api.function) in other_operators:
            continue
        if isinstance(api.function, types.FunctionType):
            yield CodeExchange(api.function, functools.partial(_wrap, session, api))
        elif not _hides_its_name(api):
            session.observe_function(api.function, api.name)
        elif OperatorExchange.can_exchange(torch.Tensor, api.attribute):
            operators[api.attribute] = _wrap(session, api, api.function)
        else:
            yield AttributeExchange(torch.Tensor, api.attribute, _wrap(session, api, api.function))
    yield OperatorExchange(torch.Tensor, operators, torch_adapter().set_class_attributes)


def _wrap(session: DumpSession, api: ListedApi, original: Any) -> Any:
    return session.wrapper(original, api.name, api.distributed)


def _hides_its_name(api: ListedApi) -> bool:
    return api.name.startswith("Tensor.__") and api.attribute not in _TOLD_BY_NAME


def _phases(session: DumpSession) -> Iterator[Exchange]:
    yield OptimizerUpdates(
        lambda *_: session.open_phase("optimizer"), lambda _: session.close_phase("optimizer")
    )
    import torch

    for name in _CLIPPING:
        function = getattr(torch.nn.utils, name, None)
        if isinstance(function, types.FunctionType):
            yield CodeExchange(function, functools.partial(_in_phase, session, "clip_grad"))


def _in_phase(session: DumpSession, phase: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        session.open_phase(phase)
        try:
            return original(*args, **kwargs)
        finally:
            session.close_phase(phase)

    return call
