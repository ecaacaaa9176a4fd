# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A module that computes in another precision: its inputs, parameters and buffers are cast in front of each
call, without autocast, and what it returns is cast back.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from msprobe.experiment.at_modules import AtModules, in_place_of_weights, weights_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from msprobe.experiment.plan import Change

DTYPES = ("float64", "float32", "bfloat16", "float16")


class Precision(AtModules):
    """Casts; gradients are cast back where they leave the module. Under autocast the result stays in the
    other precision: what takes it casts for itself.
    """

    name = "modules in another precision"

    def __init__(self, changes: Sequence[Change]) -> None:
        self._changes = {change.name.partition(".")[2]: change for change in changes}
        super().__init__(tuple(self._changes))

    def is_on(self) -> bool:
        return all(self.step >= change.first for change in self._changes.values())

    def answer(self, path: str, number: int, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        import torch
        from torch.utils._pytree import tree_leaves, tree_map

        dtype, module = getattr(torch, self._changes[path].value), self.modules[path]

        def cast(value: Any, to: Any = dtype) -> Any:
            return value.to(to) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        leaves = tree_leaves((args, kwargs))
        own = next((one.dtype for one in leaves if _is_float(one)), None)
        given: Any = tree_map(cast, (args, kwargs))
        weights = {name: cast(tensor) for name, (tensor, _) in weights_of(module).items()}
        device = next((one.device.type for one in leaves if isinstance(one, torch.Tensor)), "cpu")
        is_cast = torch.is_autocast_enabled(device)
        with (
            torch.autocast(device, enabled=False),
            in_place_of_weights(module, weights),
            _cast_buffers(module, cast),
        ):
            result = call(*given[0], **given[1])
        return result if is_cast or own is None else tree_map(lambda one: cast(one, own), result)


def _is_float(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and value.is_floating_point()


@contextlib.contextmanager
def _cast_buffers(module: Any, cast: Callable[[Any], Any]) -> Iterator[None]:
    """What the call leaves in them is left in the module's own."""
    import torch

    taken = [
        (part, name, buffer)
        for part in module.modules()
        for name, buffer in part._buffers.items()
        if buffer is not None and cast(buffer) is not buffer
    ]
    for part, name, buffer in taken:
        part._buffers[name] = cast(buffer)
    try:
        yield
    finally:
        for part, name, buffer in taken:
            with torch.no_grad():
                buffer.copy_(part._buffers[name])
            part._buffers[name] = buffer
