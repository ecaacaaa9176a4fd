# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Regions of activation checkpointing (torch.utils.checkpoint without reentrant autograd)."""

from __future__ import annotations

from typing import Any


def region_of(pack_hook: Any) -> object | None:
    """The region whose forward, or whose repetition, saves its tensors by this hook; None for other hooks."""
    function = getattr(pack_hook, "_torchdynamo_orig_callable", pack_hook)
    code = getattr(function, "__code__", None)
    if code is None or not code.co_filename.endswith("torch/utils/checkpoint.py"):
        return None
    held = dict(zip(code.co_freevars, (cell.cell_contents for cell in function.__closure__ or ())))
    if "frame" in held:  # the forward
        region: object | None = held["frame"]
        return region
    target = held.get("target_frame_ref")  # the repetition
    return None if target is None else target()
