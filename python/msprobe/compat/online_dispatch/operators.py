# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which operators are compared with the CPU."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from msprobe.native import core

if TYPE_CHECKING:
    from collections.abc import Iterable

# They make memory, name a part of it or copy it: there is no number that could be wrong.
_NOT_COMPUTING = frozenset(
    (
        "_local_scalar_dense", "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "as_strided",
        "chunk", "clone", "contiguous", "copy", "copy_", "detach", "detach_", "empty", "empty_like",
        "empty_strided", "expand", "full_like", "is_pinned", "item", "lift_fresh",
        "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "permute",
        "record_stream", "resize_", "scalar_tensor", "select", "set_", "slice", "split", "split_with_sizes",
        "squeeze", "transpose", "unbind", "unfold", "unsqueeze", "view", "view_as", "zero_", "zeros",
        "zeros_like",
    )
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def is_compared(operator: Any, *, asked_for: bool = False) -> bool:
    """Of an OpOverload: whether it computes, and gives the same twice. asked_for: by its name, also where it
    does not compute.
    """
    import torch

    name = plain_name(operator)
    if name in _NOT_COMPUTING and not asked_for:
        return False
    if core.find_operator(name).gain == "draws":  # of generators that are the program's
        return False
    schema = operator._schema
    if any(argument.is_out for argument in schema.arguments):
        return False
    tag = getattr(torch.Tag, "nondeterministic_seeded", None)
    return tag not in operator.tags and any("Tensor" in str(result.type) for result in schema.returns)


def plain_name(operator: Any) -> str:
    """ "mm" of aten::mm.default."""
    return str(operator._schema.name).rpartition("::")[2]


def are_plain(tensors: Iterable[Any]) -> bool:
    """Whether they can be copied to the CPU and measured there."""
    import torch

    plain = (torch.Tensor, torch.nn.Parameter)
    return all(
        type(t) in plain and t.layout is torch.strided and not t.is_quantized and t.device.type != "meta"
        for t in tensors
    )
