# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Fused operators of NPUs written with torch's own functions: what a CPU judges them by. Halves are raised
inside, and the results rounded once, as the operators do.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from msprobe.native import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

_MASKED = -10000.0  # what the scaled softmax puts in place of a masked value


def reference_of(name: str) -> Callable[..., Any] | None:
    """None: there is none."""
    return _REFERENCES.get(name)


def _rounded_once(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        import torch

        halves = (torch.float16, torch.bfloat16)
        first = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))

        def raised(value: Any) -> Any:
            is_half = isinstance(value, torch.Tensor) and value.dtype in halves
            return value.float() if is_half else value

        result = function(*map(raised, args), **{key: raised(value) for key, value in kwargs.items()})
        if first.dtype not in halves:
            return result
        if isinstance(result, tuple):  # statistics beside the result stay in float32
            return (result[0].to(first.dtype), *result[1:])
        return result.to(first.dtype)

    return call


# ---- activations


def _fast_gelu(x: torch.Tensor) -> torch.Tensor:
    import torch

    return x * torch.sigmoid(1.702 * x)


def _mish(x: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.nn.functional.mish(x)


def _swiglu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    import torch

    gate, value = x.chunk(2, dim)
    return torch.nn.functional.silu(gate) * value


# ---- norms


def _rms_norm(
    x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    dims = tuple(range(-gamma.dim(), 0))
    scale = (x.pow(2).mean(dims, keepdim=True) + epsilon).rsqrt()
    return x * scale * gamma, scale


def _layer_norm_eval(
    x: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    import torch

    return torch.nn.functional.layer_norm(x, list(normalized_shape), weight, bias, eps)


def _group_norm_silu(
    x: torch.Tensor, gamma: torch.Tensor | None, beta: torch.Tensor | None, group: int, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    import torch

    grouped = x.reshape(x.shape[0], group, -1)
    mean = grouped.mean(-1)
    scale = (grouped.var(-1, unbiased=False) + eps).rsqrt()
    normed = torch.nn.functional.group_norm(x, group, gamma, beta, eps)
    return torch.nn.functional.silu(normed), mean, scale


# ---- products, places


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    import torch

    return torch.nn.functional.linear(x, weight, bias)


def _rotary_mul(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, rotary_mode: str = "half"
) -> torch.Tensor:
    import torch

    if rotary_mode == "half":
        first, second = x.chunk(2, -1)
        turned = torch.cat((-second, first), -1)
    elif rotary_mode == "interleave":
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)
    else:
        raise UnsupportedError(f"rotary_mode: expected half or interleave, found {rotary_mode!r}")
    return x * cos + turned * sin


def _confusion_transpose(
    x: torch.Tensor, perm: Sequence[int], shape: Sequence[int], transpose_first: bool
) -> torch.Tensor:
    perm, shape = list(perm), list(shape)
    return x.permute(perm).reshape(shape) if transpose_first else x.reshape(shape).permute(perm)


def _sort_v2(x: torch.Tensor, dim: int = -1, descending: bool = False) -> torch.Tensor:
    import torch

    return torch.sort(x, dim=dim, descending=descending).values


# ---- softmax, attention


def _scaled_masked_softmax(
    x: torch.Tensor, mask: torch.Tensor, scale: float = 1.0, fixed_triu_mask: bool = False
) -> torch.Tensor:
    import torch

    if fixed_triu_mask:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return torch.softmax((x * scale).masked_fill(mask.bool(), _MASKED), -1)


def _gating_top_k_softmax(
    x: torch.Tensor, finished: torch.Tensor | None = None, k: int = 1
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    import torch

    weights, experts = torch.topk(torch.softmax(x, -1), k, dim=-1)
    experts = experts.to(torch.int32)
    if finished is not None:
        experts = torch.where(finished.bool()[..., None], x.shape[-1], experts).to(torch.int32)
    rows = torch.arange(weights.numel(), dtype=torch.int32, device=x.device)
    return weights, experts, rows.reshape(k, -1).t().reshape(weights.shape)


def _fusion_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    head_num: int,
    input_layout: str,
    pse: torch.Tensor | None = None,
    padding_mask: torch.Tensor | None = None,
    atten_mask: torch.Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = 2**31 - 1,
    next_tockens: int = 2**31 - 1,
    inner_precise: int = 0,
    prefix: Any = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    **_: Any,
) -> tuple[torch.Tensor]:
    """The first result alone; the others are for its backward on the device."""
    import torch

    if keep_prob < 1:
        raise UnsupportedError("it draws random numbers: no two results are the same")
    if pse is not None or prefix is not None or sparse_mode not in (0, 1, 2, 3, 4):
        raise UnsupportedError("this form of npu_fusion_attention is not known here")

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Of [batch, heads, sequence, width]."""
        k, v = (part.repeat_interleave(q.shape[1] // part.shape[1], 1) for part in (k, v))
        scores = q @ k.transpose(-1, -2) * scale
        mask = _attention_mask(q.shape[2], k.shape[2], atten_mask, sparse_mode, pre_tockens, next_tockens)
        if mask is None:
            return torch.softmax(scores, -1) @ v
        mask = mask.to(q.device)
        nothing = mask.all(-1, keepdim=True)  # is left in this row: it gives zeros
        weights = torch.softmax(scores.masked_fill(mask & ~nothing, float("-inf")), -1)
        return weights.masked_fill(nothing, 0.0) @ v

    layout = input_layout.upper()
    if layout == "TND":
        ends = (list(actual_seq_qlen or [len(query)]), list(actual_seq_kvlen or [len(key)]))
        parts, begins = [], (0, 0)
        for q_end, k_end in zip(*ends):
            q = query[begins[0] : q_end]
            k, v = (part[begins[1] : k_end] for part in (key, value))
            found = attend(*(part.transpose(0, 1)[None] for part in (q, k, v)))
            parts.append(found[0].transpose(0, 1))
            begins = (q_end, k_end)
        return (torch.cat(parts),)
    if layout not in _HEADS_FIRST:
        raise UnsupportedError(f"input_layout: expected BSH, SBH, BNSD, BSND or TND, found {input_layout!r}")
    width = query.shape[-1] // (head_num if layout in ("BSH", "SBH") else 1)
    there, back = _HEADS_FIRST[layout]
    found = attend(*(there(part, width) for part in (query, key, value)))
    return (back(found).reshape(*query.shape[:-1], -1),)


# Of each layout: to batch, heads, sequence, width (of a head), and back.
_HEADS_FIRST: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "BNSD": (lambda x, width: x, lambda x: x),
    "BSND": (lambda x, width: x.transpose(1, 2), lambda x: x.transpose(1, 2)),
    "BSH": (
        lambda x, width: x.reshape(*x.shape[:2], -1, width).transpose(1, 2),
        lambda x: x.transpose(1, 2).flatten(2),
    ),
    "SBH": (
        lambda x, width: x.reshape(*x.shape[:2], -1, width).permute(1, 2, 0, 3),
        lambda x: x.permute(2, 0, 1, 3).flatten(2),
    ),
}


def _attention_mask(
    queries: int, keys: int, given: torch.Tensor | None, sparse_mode: int, before: int, after: int
) -> torch.Tensor | None:
    """True: left out. None: nothing is."""
    import torch

    if sparse_mode in (0, 1):
        return None if given is None else given.bool()
    distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]  # of a key from its query
    if sparse_mode == 2:  # the diagonal begins above, on the left
        return distance > 0
    distance = distance - (keys - queries)  # it ends below, on the right
    return distance > 0 if sparse_mode == 3 else (distance > after) | (distance < -before)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "fast_gelu": _fast_gelu,
    "npu_fast_gelu": _fast_gelu,
    "npu_confusion_transpose": _confusion_transpose,
    "npu_fusion_attention": _fusion_attention,
    "npu_group_norm_silu": _group_norm_silu,
    "npu_layer_norm_eval": _layer_norm_eval,
    "npu_linear": _linear,
    "npu_mish": _mish,
    "npu_moe_gating_top_k_softmax": _gating_top_k_softmax,
    "npu_rms_norm": _rms_norm,
    "npu_rotary_mul": _rotary_mul,
    "npu_scaled_masked_softmax": _scaled_masked_softmax,
    "npu_sort_v2": _sort_v2,
    "npu_swiglu": _swiglu,
}
_REFERENCES = {name: _rounded_once(function) for name, function in _FUNCTIONS.items()}
