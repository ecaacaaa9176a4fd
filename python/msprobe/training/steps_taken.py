# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How many steps an optimizer has made, as its own state counts them."""

from __future__ import annotations

from typing import Any


def steps_taken(optimizer: Any) -> int:
    """0 where it keeps no count. Reads one number; on a device it waits for it."""
    kept = [*list(getattr(optimizer, "state", {}).values())[:1], *getattr(optimizer, "param_groups", ())]
    for one in kept:
        step = one.get("step") if isinstance(one, dict) else None
        if step is not None and not isinstance(step, bool):
            try:
                return max(int(step), 0)
            except (TypeError, ValueError, RuntimeError):  # of a meta or fake tensor
                continue
    return 0
