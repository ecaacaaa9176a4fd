# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a call of a model depends on beside its weights, kept so that it can be made again: copies of its
arguments, random generators, autocast.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEEPEST = 8  # of nested results


def tensors_of(value: Any, depth: int = 0) -> list[Any]:
    """In lists, tuples, mappings and dataclasses, in their order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if depth > _DEEPEST:
        return []
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.values()
    elif isinstance(value, (list, tuple)):
        items = value
    elif is_dataclass(value) and not isinstance(value, type):
        items = [getattr(value, one.name) for one in fields(value)]
    return [tensor for item in items for tensor in tensors_of(item, depth + 1)]


def cloned(value: Any, depth: int = 0) -> Any:
    """The same with copies of tensors; other objects are themselves."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if depth > _DEEPEST:
        return value
    if type(value) in (list, tuple):
        return type(value)(cloned(item, depth + 1) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(cloned(item, depth + 1) for item in value))
    if type(value) is dict:
        return {key: cloned(item, depth + 1) for key, item in value.items()}
    return value


def random_state() -> Any:
    import torch

    devices = [torch.cuda.get_rng_state(i) for i in range(torch.cuda.device_count())] if _has_cuda() else []
    numpy: Any = sys.modules.get("numpy")
    return torch.get_rng_state(), devices, random.getstate(), numpy.random.get_state() if numpy else None


def restore_random_state(state: Any) -> None:
    import torch

    torch.set_rng_state(state[0])
    for number, one in enumerate(state[1]):
        torch.cuda.set_rng_state(one, number)
    random.setstate(state[2])
    if state[3] is not None:
        sys.modules["numpy"].random.set_state(state[3])


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    state = random_state()
    try:
        yield
    finally:
        restore_random_state(state)


def _has_cuda() -> bool:
    import torch

    cuda: Any = torch.cuda
    return bool(cuda.is_available() and cuda.is_initialized())


def autocast_of(model: Any) -> tuple[str, bool, Any]:
    import torch

    device = next((parameter.device.type for parameter in model.parameters()), "cpu")
    ask: Any = torch
    try:
        return device, bool(ask.is_autocast_enabled(device)), ask.get_autocast_dtype(device)
    except (TypeError, AttributeError):  # torch before 2.4
        enabled = ask.is_autocast_cpu_enabled() if device == "cpu" else ask.is_autocast_enabled()
        dtype = ask.get_autocast_cpu_dtype() if device == "cpu" else ask.get_autocast_gpu_dtype()
        return device, bool(enabled), dtype


@contextlib.contextmanager
def autocast_again(state: tuple[str, bool, Any]) -> Iterator[None]:
    import torch

    device, enabled, dtype = state
    with torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False):
        yield
