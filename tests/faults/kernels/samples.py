# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of operators on numbers that are the same everywhere: what kernels are measured on.

Needs torch and numpy alone, any version of torch: worker.py runs them in many environments.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import torch
import torch.nn.functional as F  # noqa: N812

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Input:
    shape: tuple[int, ...]
    kind: str = "normal"
    """normal; positive: 0.5 to 2; logits: three times normal; an integer N: places below N."""


@dataclass(frozen=True)
class Sample:
    operator: str
    """A name of cpp/src/operators."""
    gain: str
    """Its class there."""
    call: Callable[..., torch.Tensor]
    inputs: tuple[Input, ...]
    terms: float = 1
    """How many numbers an element of the result is the sum of."""
    has_images: bool = False
    """Other kernels may run for tensors in channels_last."""

    variant: str = ""
    """Tells apart calls of one operator on equal shapes."""

    @property
    def name(self) -> str:
        shapes = "_".join("x".join(map(str, one.shape)) for one in self.inputs)
        return f"{self.operator}{self.variant}-{shapes}"

    def terms_of_gradient(self, result: float, gradient: float) -> float:
        """By the numbers of elements: all products of a sum of products occur in each of its gradients; the
        gradient of what was used more than once is the sum over its uses.
        """
        uses = result / gradient
        return max(self.terms, (self.terms if self.gain == "product" else 1) * uses)

    def arrays(self) -> list[Any]:
        """Drawn by numpy: generators of torch draw other numbers with other kernels."""
        random = numpy.random.Generator(numpy.random.PCG64(zlib.crc32(self.name.encode())))
        return [_draw(random, one) for one in self.inputs]


def _draw(random: Any, one: Input) -> Any:
    if one.kind.isdigit():
        return random.integers(0, int(one.kind), one.shape)
    if one.kind == "positive":
        return random.uniform(0.5, 2.0, one.shape).astype(numpy.float32)
    size = 3.0 if one.kind == "logits" else 1.0
    return (size * random.standard_normal(one.shape)).astype(numpy.float32)


def _elements(operator: str, gain: str, call: Any, *kinds: str) -> list[Sample]:
    """Functions of single elements: one size that one thread does, one that several divide."""
    return [
        Sample(operator, gain, call, tuple(Input(shape, kind) for kind in kinds or ("normal",)))
        for shape in ((37, 65), (384, 512))
    ]


def _rows(operator: str, gain: str, call: Any, kind: str = "normal", sums: bool = True) -> list[Sample]:
    """Functions of rows."""
    return [
        Sample(operator, gain, call, (Input((rows, width), kind),), width if sums else 1)
        for rows, width in ((48, 33), (160, 768), (16, 8192))
    ]


def _images(operator: str, gain: str, call: Any, terms: Callable[[tuple[int, ...]], float]) -> list[Sample]:
    shapes = ((2, 8, 14, 14), (8, 32, 28, 28))
    return [Sample(operator, gain, call, (Input(shape),), terms(shape), True) for shape in shapes]


def _products(operator: str, call: Any, shapes: Any, terms: Any, **more: Any) -> list[Sample]:
    return [
        Sample(operator, "product", call, tuple(Input(shape) for shape in given), terms(*given), **more)
        for given in shapes
    ]


def _repeated(uses: int) -> Any:
    return lambda x: x[None].expand(uses, *x.shape).clone()


def _convolution(operator: str, call: Any, *shapes: Any) -> list[Sample]:
    """Terms: the kernel without its first extent."""

    def terms(x: tuple[int, ...], weight: tuple[int, ...]) -> float:
        return float(numpy.prod(weight[1:]))

    return _products(operator, call, shapes, terms, has_images=len(shapes[0][0]) == 4)


def _attention(is_causal: bool) -> Any:
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def _recurrent(kind: Any) -> Any:
    def call(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        module = kind(x.shape[-1], weights[1].shape[1]).to(x.dtype)
        names = [name for name, _ in module.named_parameters()]
        scaled = {name: 0.2 * weight for name, weight in zip(names, weights)}
        return torch.func.functional_call(module, scaled, (x,))[0]

    return call


def _gates(count: int, inner: int, hidden: int) -> tuple[Input, ...]:
    return (
        Input((12, 4, inner)),
        Input((count * hidden, inner)),
        Input((count * hidden, hidden)),
        Input((count * hidden,)),
        Input((count * hidden,)),
    )


def _last(*shapes: tuple[int, ...]) -> float:
    return shapes[0][-1]


def _whole(shape: tuple[int, ...]) -> float:
    return float(shape[0] * shape[2] * shape[3])


def samples() -> list[Sample]:
    """All of them, in a fixed order."""
    e, r = _elements, _rows
    return [
        # functions of single elements
        *e("mul", "elementwise", torch.mul, "normal", "normal"),
        *e("div", "elementwise", torch.div, "normal", "positive"),
        *e("rsqrt", "elementwise", torch.rsqrt, "positive"),
        *e("reciprocal", "elementwise", torch.reciprocal, "positive"),
        *e("addcmul", "elementwise", torch.addcmul, "normal", "normal", "normal"),
        *e("gelu", "elementwise", F.gelu),
        *e("gelu", "elementwise", lambda x: F.gelu(x, approximate="tanh"), "logits"),
        *e("silu", "elementwise", F.silu),
        *e("mish", "elementwise", F.mish),
        *e("tanh", "elementwise", torch.tanh),
        *e("softplus", "elementwise", F.softplus),
        *e("erf", "elementwise", torch.erf),
        *e("atan", "elementwise", torch.atan),
        *e("leaky_relu", "elementwise", F.leaky_relu),
        *e("elu", "elementwise", F.elu),
        *e("hardswish", "elementwise", F.hardswish),
        *e("selu", "elementwise", F.selu),
        *r("glu", "elementwise", lambda x: F.glu(x[:, : x.shape[1] // 2 * 2]), sums=False),
        *r("norm", "elementwise", lambda x: torch.linalg.vector_norm(x, dim=-1)),
        *e("pow", "power", lambda x: x.pow(3)),
        *e("square", "power", torch.square),
        *r("prod", "power", lambda x: (1 + 0.05 * x).prod(-1)),
        *e("sqrt", "root", torch.sqrt, "positive"),
        *e("exp", "exponential", torch.exp),
        *e("expm1", "exponential", torch.expm1),
        *e("sigmoid", "exponential", torch.sigmoid, "logits"),
        *e("sin", "exponential", torch.sin, "logits"),
        *e("cos", "exponential", torch.cos, "logits"),
        *r("softmax", "exponential", lambda x: F.softmax(x, -1), "logits"),
        *e("log", "logarithm", torch.log, "positive"),
        *e("log1p", "logarithm", torch.log1p, "positive"),
        *e("logsigmoid", "logarithm", F.logsigmoid, "logits"),
        *r("log_softmax", "logarithm", lambda x: F.log_softmax(x, -1), "logits"),
        *(
            Sample(
                "cross_entropy",
                "logarithm",
                F.cross_entropy,
                (Input(shape, "logits"), Input(shape[:1], "30")),
                shape[1],
            )
            for shape in ((48, 33), (256, 1000))
        ),
        *(
            Sample(
                "binary_cross_entropy_with_logits",
                "logarithm",
                lambda x, t: F.binary_cross_entropy_with_logits(x, t.to(x.dtype)),
                (Input((rows,), "logits"), Input((rows,), "2")),
                rows,
            )
            for rows in (48, 40000)
        ),
        # sums
        *e("add", "sum", torch.add, "normal", "normal"),
        *e("sub", "sum", torch.sub, "normal", "normal"),
        *e("lerp", "sum", lambda a, b: torch.lerp(a, b, 0.1), "normal", "normal"),
        *r("sum", "sum", lambda x: x.sum(-1)),
        *r("sum", "sum", lambda x: x.sum(0), "positive"),
        *r("mean", "sum", lambda x: x.mean(-1), "positive"),
        *r("cumsum", "sum", lambda x: x.cumsum(-1)),
        *r("logsumexp", "sum", lambda x: x.logsumexp(-1), "logits"),
        *_images("avg_pool2d", "sum", lambda x: F.avg_pool2d(x, 2), lambda shape: 4),
        *_images("adaptive_avg_pool2d", "sum", lambda x: F.adaptive_avg_pool2d(x, 1), lambda s: s[2] * s[3]),
        *_images(
            "interpolate",
            "sum",
            lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False),
            lambda shape: 4,
        ),
        *(
            Sample("mse_loss", "sum", F.mse_loss, (Input((rows, 33)), Input((rows, 33))), rows * 33)
            for rows in (16, 4096)
        ),
        *(
            Sample(
                "smooth_l1_loss", "sum", F.smooth_l1_loss, (Input((rows, 33)), Input((rows, 33))), rows * 33
            )
            for rows in (16, 4096)
        ),
        *(
            Sample(
                "index_add",
                "sum",
                lambda x, i: x.new_zeros(40, x.shape[1]).index_add(0, i, x),
                (Input((rows, 24)), Input((rows,), "40")),
                rows / 40,
            )
            for rows in (200, 8000)
        ),
        *(
            Sample(
                "embedding_bag",
                "sum",
                lambda i, w: F.embedding_bag(i, w, mode="sum"),
                (Input((rows, 12), "90"), Input((90, 32))),
                12,
            )
            for rows in (40, 2000)
        ),
        # moved, looked up: the gradient is a sum over all uses
        *(
            Sample(
                "embedding", "moves", lambda i, w: F.embedding(i, w), (Input((rows,), "50"), Input((50, 32)))
            )
            for rows in (100, 20000)
        ),
        *(
            Sample("expand", "moves", _repeated(uses), (Input((24, 40)),), variant=f"_{uses}")
            for uses in (8, 512)
        ),
        *_images("max_pool2d", "picks", lambda x: F.max_pool2d(x, 3, 1, padding=1), lambda shape: 1),
        # sums of products
        *_products(
            "linear",
            F.linear,
            (((30, 48), (40, 48), (40,)), ((512, 256), (384, 256), (384,)), ((64, 4096), (96, 4096), (96,))),
            _last,
        ),
        *_products("matmul", torch.matmul, (((30, 48), (48, 40)), ((256, 1024), (1024, 128))), _last),
        *_products("bmm", torch.bmm, (((6, 20, 16), (6, 16, 20)), ((16, 96, 64), (16, 64, 96))), _last),
        *_products(
            "baddbmm",
            torch.baddbmm,
            (((6, 20, 20), (6, 20, 16), (6, 16, 20)), ((8, 64, 96), (8, 64, 512), (8, 512, 96))),
            lambda first, a, b: a[-1],
        ),
        *_products(
            "einsum",
            lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b),
            (((2, 3, 10, 16), (2, 3, 12, 16)), ((4, 8, 64, 64), (4, 8, 64, 64))),
            _last,
        ),
        *_products(
            "addmm",
            torch.addmm,
            (((40,), (30, 48), (48, 40)), ((128,), (256, 768), (768, 128))),
            lambda b, x, y: x[-1],
        ),
        *_convolution(
            "conv1d",
            lambda x, w: F.conv1d(x, w, padding=1),
            ((2, 8, 30), (12, 8, 3)),
            ((8, 64, 256), (64, 64, 3)),
        ),
        *_convolution(
            "conv2d",
            lambda x, w: F.conv2d(x, w, padding=1),
            ((2, 3, 12, 12), (8, 3, 3, 3)),
            ((8, 32, 28, 28), (48, 32, 3, 3)),
        ),
        *_convolution(
            "conv2d", F.conv2d, ((2, 16, 9, 9), (8, 16, 1, 1)), ((4, 128, 14, 14), (96, 128, 1, 1))
        ),
        *_convolution(
            "conv2d",
            lambda x, w: F.conv2d(x, w, padding=1, groups=w.shape[0]),
            ((2, 16, 11, 11), (16, 1, 3, 3)),
            ((8, 64, 28, 28), (64, 1, 3, 3)),
        ),
        *_convolution(
            "conv2d",
            lambda x, w: F.conv2d(x, w, stride=4),
            ((4, 3, 32, 32), (24, 3, 4, 4)),
            ((16, 3, 64, 64), (48, 3, 8, 8)),
        ),
        *_convolution(
            "conv3d",
            lambda x, w: F.conv3d(x, w, padding=1),
            ((1, 4, 6, 8, 8), (6, 4, 3, 3, 3)),
            ((2, 8, 8, 16, 16), (12, 8, 3, 3, 3)),
        ),
        *_products(
            "conv_transpose2d",
            lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
            (((2, 8, 6, 6), (8, 6, 4, 4)), ((8, 32, 14, 14), (32, 24, 4, 4))),
            lambda x, w: w[0] * w[2] * w[3] / 4,
            has_images=True,
        ),
        # normalisations
        *(
            Sample(
                "layer_norm",
                "scale_free",
                lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
                (Input((rows, width)), Input((width,)), Input((width,))),
                width,
            )
            for rows, width in ((48, 33), (400, 512), (16, 8192))
        ),
        *(
            Sample(
                "rms_norm",
                "scale_free",
                lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6),
                (Input((rows, width)), Input((width,))),
                width,
            )
            for rows, width in ((48, 33), (400, 512))
        ),
        *(
            Sample(
                "batch_norm",
                "scale_free",
                lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
                (Input(shape), Input(shape[1:2]), Input(shape[1:2])),
                _whole(shape),
                True,
            )
            for shape in ((2, 8, 14, 14), (8, 32, 28, 28))
        ),
        *(
            Sample(
                "group_norm",
                "scale_free",
                lambda x, w, b: F.group_norm(x, 4, w, b),
                (Input(shape), Input(shape[1:2]), Input(shape[1:2])),
                shape[1] * shape[2] * shape[3] / 4,
                True,
            )
            for shape in ((2, 8, 14, 14), (8, 32, 28, 28))
        ),
        *_images("instance_norm", "scale_free", F.instance_norm, lambda shape: shape[2] * shape[3]),
        *r("normalize", "scale_free", lambda x: F.normalize(x, dim=-1)),
        *r("std", "scale_free", lambda x: x.std(-1)),
        *r("var", "scale_free", lambda x: x.var(-1), "positive"),
        # several steps
        *(
            Sample(
                "scaled_dot_product_attention",
                "attention",
                _attention(is_causal),
                (Input((2, heads, length, width)),) * 3,
                width + length,
            )
            for is_causal in (False, True)
            for heads, length, width in ((2, 12, 8), (4, 160, 32))
        ),
        Sample("lstm", "recurrent", _recurrent(torch.nn.LSTM), _gates(4, 16, 20), 36),
        Sample("lstm", "recurrent", _recurrent(torch.nn.LSTM), _gates(4, 64, 96), 160),
        Sample("gru", "recurrent", _recurrent(torch.nn.GRU), _gates(3, 16, 20), 36),
        Sample("rnn_tanh", "recurrent", _recurrent(torch.nn.RNN), _gates(1, 16, 20), 36),
    ]
