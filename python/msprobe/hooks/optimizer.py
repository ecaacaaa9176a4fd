# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A hook before every optimizer step of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Removable(Protocol):
    """Takes its hook off."""

    def remove(self) -> None: ...


def before_every_step(call: Callable[[Any, Any, Any], None]) -> Removable:
    """Calls `call(optimizer, args, kwargs)` at the start of each `step()` of each `torch.optim.Optimizer`.

    It runs before the hooks of the optimizer itself, and after what was done to the gradients before
    `step()`.
    """
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    return register_optimizer_step_pre_hook(call)
