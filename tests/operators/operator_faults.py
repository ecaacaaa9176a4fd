# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Operators with a fault, each as it happens on real devices, and the calls that they are tried on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812


@dataclass(frozen=True)
class Fault:
    """An implementation that takes the place of an operator of torch."""

    name: str
    operator: str
    """As in a record: "Functional.softmax"."""
    implementation: Callable[..., Any]
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    repeat: int = 1
    """Runs that show it."""


def training_step(dtype: torch.dtype, seed: int = 0) -> None:
    """Calls every operator that has a fault below, forward and backward, on sizes of a small model."""
    torch.manual_seed(seed)

    def draw(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(*shape) * scale).to(dtype).requires_grad_()

    x, w, b = draw(64, 128), draw(96, 128, scale=0.1), draw(96)
    gamma, beta = draw(96), draw(96)
    h = F.linear(x, w, b)
    n = F.layer_norm(h, (96,), gamma, beta)
    a = F.softmax(n * 4, dim=-1)
    ls = F.log_softmax(n * 4, dim=-1)
    g = F.gelu(n)
    s = F.silu(h)
    m = torch.matmul(g, draw(96, 256, scale=0.1))
    e = torch.exp(n.clamp(-4, 4))
    q, k, v = (draw(2, 4, 32, 16) for _ in range(3))
    o = F.scaled_dot_product_attention(q, k, v)
    img = draw(4, 8, 16, 16)
    c = F.conv2d(img, draw(16, 8, 3, 3, scale=0.1), padding=1)
    p = F.max_pool2d(c, 2)
    bn = F.batch_norm(c, None, None, draw(16), draw(16), training=True)
    av = F.avg_pool2d(bn, 2)
    total = torch.sum(m, dim=-1)
    mean = torch.mean(m, dim=-1)
    var = torch.var(m + 10, dim=-1)
    norm = torch.norm(m, dim=-1)
    cum = torch.cumsum(m, dim=-1)
    index = torch.randint(0, 16, (64,))
    scattered = torch.index_add(draw(16, 96), 0, index, n)
    table = draw(50, 32)
    emb = F.embedding(torch.randint(0, 50, (128,)), table)
    loss = F.cross_entropy(m, torch.randint(0, 256, (64,)))
    mse = F.mse_loss(m, draw(64, 256))
    mult = torch.mul(m, 3.0)
    added = torch.add(m, mult)
    divided = torch.div(m, mult.abs() + 1)
    root = torch.rsqrt(m.abs() + 1)
    sig = torch.sigmoid(m)
    th = torch.tanh(m)
    results = [a, ls, s, e, o, p, av, total, mean, var, norm, cum, scattered, emb, loss, mse, added, divided,
               root, sig, th]  # fmt: skip
    torch.autograd.backward(results, [torch.randn_like(result) for result in results])


# ---- the faults


def in_half(function: Callable[..., Any]) -> Callable[..., Any]:
    """Computed in float16, and given back in the dtype of the argument."""

    def wrong(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return function(x.half(), *args, **kwargs).to(x.dtype)

    return wrong


def softmax_in_own_dtype(x: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
    """Every step rounded to the dtype, and the sum kept in it."""
    e = torch.exp(x - x.amax(dim, keepdim=True))
    total = torch.zeros_like(e.select(dim, 0))
    for i in range(e.shape[dim]):
        total = total + e.select(dim, i)
    return e / total.unsqueeze(dim)


def softmax_without_maximum(x: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
    e = torch.exp(x * 30)
    return e / e.sum(dim, keepdim=True)


class _Rounded(torch.autograd.Function):
    """To so many bits of mantissa; the gradient passes."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, bits: int) -> torch.Tensor:
        mantissa, exponent = torch.frexp(x.double())
        return torch.ldexp(torch.round(mantissa * 2.0**bits) / 2.0**bits, exponent).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient, None


def short_arguments(function: Callable[..., Any], bits: int) -> Callable[..., Any]:
    """Arguments rounded to so many bits, as some matrix units do with float32."""

    def wrong(a: torch.Tensor, b: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return function(_Rounded.apply(a, bits), _Rounded.apply(b, bits), *args, **kwargs)

    return wrong


def matmul_with_short_sums(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Partial sums kept in the dtype of the arguments."""
    total = torch.zeros(*a.shape[:-1], b.shape[-1], dtype=a.dtype)
    for i in range(0, a.shape[-1], 4):
        total = total + torch.matmul(a[..., i : i + 4], b[..., i : i + 4, :])
    return total


def sum_in_own_dtype(x: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
    total = torch.zeros_like(x.select(dim, 0))
    for i in range(x.shape[dim]):
        total = total + x.select(dim, i)
    return total


def sum_in_bfloat16(x: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
    return sum_in_own_dtype(x.bfloat16(), dim).to(x.dtype)


def layer_norm_gamma(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Gamma is a little larger than it should be."""
    return F.layer_norm(x, shape, weight * 1.02, bias, eps)


def layer_norm_eps(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return F.layer_norm(x, shape, weight, bias, 1e-2)


def layer_norm_no_bias(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return F.layer_norm(x, shape, weight, None, eps) + 0 * bias


class _WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * ctx.factor, None


def gradient_off(function: Callable[..., Any], factor: float, place: int = 0) -> Callable[..., Any]:
    """The gradient of one argument is off by a factor."""

    def wrong(*args: Any, **kwargs: Any) -> Any:
        changed = list(args)
        changed[place] = _WrongGradient.apply(args[place], factor)
        return function(*changed, **kwargs)

    return wrong


def gelu_tanh(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """The approximation, where the exact function is asked for."""
    return F.gelu(x, approximate="tanh")


def exp_short(x: torch.Tensor) -> torch.Tensor:
    """Twelve bits, as a table and one step of interpolation give."""
    return _Rounded.apply(torch.exp(x), 12 if x.dtype is torch.float32 else 6)


def rsqrt_short(x: torch.Tensor) -> torch.Tensor:
    return _Rounded.apply(torch.rsqrt(x), 12 if x.dtype is torch.float32 else 6)


def attention_scale(q: Any, k: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, scale=1 / q.shape[-1])


def attention_causal(q: Any, k: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention_in_own_dtype(q: Any, k: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
    scores = matmul_with_short_sums(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    return matmul_with_short_sums(softmax_in_own_dtype(scores), v)


def conv_without_last_channel(x: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
    keep = torch.ones(weight.shape[1], dtype=weight.dtype)
    keep[-1] = 0
    return F.conv2d(x, weight * keep[:, None, None], *args, **kwargs)


def conv_edge(x: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
    """One column at the edge is computed as if it lay inside."""
    found = F.conv2d(x, weight, *args, **kwargs)
    return torch.cat([found[..., :-1], found[..., -2:-1]], dim=-1)


def batch_norm_unbiased(
    x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, **kwargs: Any
) -> Any:
    count = x.numel() // x.shape[1]
    return F.batch_norm(x, None, None, weight * math.sqrt((count - 1) / count), bias, training=True)


def var_by_squares(x: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
    """Mean of the squares less the square of the mean: the digits go."""
    n = x.shape[dim]
    return ((x * x).mean(dim) - x.mean(dim) ** 2) * (n / (n - 1))


def mean_short(x: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
    return x.sum(dim) / (x.shape[dim] + 1)


def index_add_in_any_order(x: Any, dim: int, index: Any, source: Any, **_: Any) -> torch.Tensor:
    """Additions that race."""
    order = torch.randperm(len(index))
    result = x.clone()
    for i in order.tolist():
        row = torch.zeros_like(x)
        row[int(index[i])] = source[i]
        result = result + row
    return result


def index_add_lost(x: Any, dim: int, index: Any, source: Any, **_: Any) -> torch.Tensor:
    """Of two additions to one place one is lost."""
    return torch.index_add(x, dim, index[:-1], source[:-1])


def cumsum_blocks(x: torch.Tensor, dim: int = -1, **_: Any) -> torch.Tensor:
    """The carry of the last block is forgotten."""
    half = x.shape[dim] // 2
    first, second = torch.cumsum(x[..., :half], dim), torch.cumsum(x[..., half:], dim)
    return torch.cat([first, second], dim)


def max_pool_offset(x: Any, *args: Any, **kwargs: Any) -> Any:
    return F.max_pool2d(torch.roll(x, 1, -1), *args, **kwargs)


def cross_entropy_smoothed(x: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    return F.cross_entropy(x, target, label_smoothing=0.01)


def sigmoid_saturated(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x.clamp(-3, 3))


def with_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        mask = torch.zeros_like(found)
        mask.reshape(-1)[found.numel() // 3] = math.nan
        return found + mask

    return wrong


FAULTS = (
    Fault("softmax in half precision", "Functional.softmax", in_half(F.softmax), ("float32",)),
    Fault("softmax in its own dtype", "Functional.softmax", softmax_in_own_dtype, ("bfloat16",)),
    Fault("softmax that overflows", "Functional.softmax", softmax_without_maximum),
    Fault("log_softmax in half precision", "Functional.log_softmax", in_half(F.log_softmax), ("float32",)),
    Fault("matmul with 10 bits of its arguments", "Torch.matmul", short_arguments(torch.matmul, 11),
          ("float32",)),
    Fault("matmul with a reduced accumulator", "Torch.matmul", matmul_with_short_sums, ("bfloat16",)),
    Fault("matmul in bfloat16", "Torch.matmul", short_arguments(torch.matmul, 8), ("float32",)),
    Fault("linear with 10 bits of its arguments", "Functional.linear", short_arguments(F.linear, 11),
          ("float32",)),
    Fault("linear: gradient off by 1.01", "Functional.linear", gradient_off(F.linear, 1.01, 1), ("float32",)),
    Fault("linear: gradient off by 1.05", "Functional.linear", gradient_off(F.linear, 1.05, 1)),
    Fault("sum in its own dtype", "Torch.sum", sum_in_own_dtype, ("bfloat16",)),
    Fault("sum in bfloat16", "Torch.sum", sum_in_bfloat16, ("float32",)),
    Fault("mean of one too many", "Torch.mean", mean_short, ("float32",)),
    Fault("variance by squares", "Torch.var", var_by_squares),
    Fault("norm in half precision", "Torch.norm", in_half(torch.norm), ("float32",)),
    Fault("cumsum that forgets a carry", "Torch.cumsum", cumsum_blocks),
    Fault("layer_norm with a wrong gamma", "Functional.layer_norm", layer_norm_gamma),
    Fault("layer_norm with another epsilon", "Functional.layer_norm", layer_norm_eps, ("float32",)),
    Fault("layer_norm without its bias", "Functional.layer_norm", layer_norm_no_bias),
    Fault("batch_norm with the other variance", "Functional.batch_norm", batch_norm_unbiased, ("float32",)),
    Fault("gelu by tanh", "Functional.gelu", gelu_tanh, ("float32",)),
    Fault("gelu: gradient off by a factor", "Functional.gelu", gradient_off(F.gelu, 1.02)),
    Fault("silu in half precision", "Functional.silu", in_half(F.silu), ("float32",)),
    Fault("exp with few bits", "Torch.exp", exp_short),
    Fault("rsqrt with few bits", "Torch.rsqrt", rsqrt_short),
    Fault("tanh in half precision", "Torch.tanh", in_half(torch.tanh), ("float32",)),
    Fault("sigmoid that saturates", "Torch.sigmoid", sigmoid_saturated),
    Fault("attention with a wrong scale", "Functional.scaled_dot_product_attention", attention_scale),
    Fault("attention that is causal", "Functional.scaled_dot_product_attention", attention_causal),
    Fault("attention in its own dtype", "Functional.scaled_dot_product_attention", attention_in_own_dtype,
          ("bfloat16",)),
    Fault("conv2d without its last channel", "Functional.conv2d", conv_without_last_channel),
    Fault("conv2d wrong at the edge", "Functional.conv2d", conv_edge),
    Fault("conv2d with 10 bits of its arguments", "Functional.conv2d", short_arguments(F.conv2d, 11),
          ("float32",)),
    Fault("conv2d: gradient of the weight off by a factor", "Functional.conv2d",
          gradient_off(F.conv2d, 1.03, 1)),
    Fault("max_pool2d one off", "Functional.max_pool2d", max_pool_offset),
    Fault("cross_entropy with smoothed labels", "Functional.cross_entropy", cross_entropy_smoothed),
    Fault("mse_loss: gradient off by a factor", "Functional.mse_loss", gradient_off(F.mse_loss, 2.0)),
    Fault("embedding: gradient off by a factor", "Functional.embedding", gradient_off(F.embedding, 0.5, 1)),
    Fault("index_add in any order", "Torch.index_add", index_add_in_any_order, repeat=3),
    Fault("index_add that loses one", "Torch.index_add", index_add_lost),
    Fault("add in half precision", "Torch.add", in_half(torch.add), ("float32",)),
    Fault("mul: gradient off by a factor", "Torch.mul", gradient_off(torch.mul, 1.05)),
    Fault("div with few bits", "Torch.div", lambda a, b: _Rounded.apply(torch.div(a, b), 12), ("float32",)),
    Fault("a NaN in exp", "Torch.exp", with_nan(torch.exp)),
    Fault("a NaN in matmul", "Torch.matmul", with_nan(torch.matmul)),
)  # fmt: skip
