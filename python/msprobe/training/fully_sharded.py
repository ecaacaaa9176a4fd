# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What torch's fully_shard() knows of a module."""

from __future__ import annotations

from typing import Any


def parameter_groups(module: Any) -> list[Any]:
    """Of a module that fully_shard() was called for; empty for any other. Releases of torch differ in how
    they keep them.
    """
    ask = getattr(module, "_get_fsdp_state", None)
    if ask is None:
        return []
    state = ask()
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        groups = [getattr(state, "_fsdp_param_group", None)]
    return [group for group in groups if group is not None]
