# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients that an engine takes away from the parameters of the model, for the flat ones that it updates."""

from __future__ import annotations

from typing import Any


def gradient_of_part(parameter: Any) -> Any:
    """What the update that begins now sees of the gradient of a parameter, where DeepSpeed partitions it: the
    part of this process, flat. None: it is not partitioned, or this process has no part of it.

    The engine has left beside the parameter where its part lies. ZeRO 1, 2 and BF16_Optimizer: a fragment of
    a flat parameter in float32. ZeRO 3: a range of the flat parameter of a group.
    """
    fragment = getattr(getattr(parameter, "_hp_mapping", None), "hp_fragment", None)
    if fragment is not None:
        flat = fragment if fragment._base is None else fragment._base
        begin = fragment.storage_offset() - flat.storage_offset()
        return _range(flat, begin, fragment.numel())
    engine = getattr(parameter, "_z3_optimizer", None)
    if engine is None:
        return None
    group, begin, _ = engine.grad_position[engine.get_param_id(parameter)]
    part = without_padding(parameter, parameter.ds_tensor)
    return _range(engine.fp32_partitioned_groups_flat[group], begin, part.numel())


def part_in_words(parameter: Any) -> str:
    """Which part of it this process has, where DeepSpeed partitions it; empty: it does not."""
    if hasattr(parameter, "_hp_mapping"):
        fragment = parameter._hp_mapping
        if fragment is None:
            return f"none of {parameter.numel()} elements"
        address = fragment.lp_fragment_address
        return f"elements from {address.start}: {address.numel} of {parameter.numel()}"
    if hasattr(parameter, "_z3_optimizer"):
        part = without_padding(parameter, parameter.ds_tensor)
        return f"one shard: {part.numel()} of {parameter.ds_numel} elements"
    return ""


def _range(flat: Any, begin: int, count: int) -> Any:
    return None if flat.grad is None else flat.grad.reshape(-1)[begin : begin + count]


def without_padding(parameter: Any, shard: Any) -> Any:
    """ZeRO 3 splits a parameter into equal shards: behind its end they are filled up."""
    whole = getattr(parameter, "ds_numel", None)
    if shard is None or whole is None:
        return shard
    begin = _rank_in(getattr(parameter, "ds_process_group", None)) * shard.numel()
    real = max(0, min(int(whole) - begin, shard.numel()))
    return shard.reshape(-1)[:real]


def _rank_in(group: Any) -> int:
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return 0
    return int(distributed.get_rank(group))
