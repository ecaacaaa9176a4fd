# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Rewrites are equal to what they replace, with gradients, and rewritten scripts are programs. Whether anyone
is accused of them is asked by hand (rewritten/table.py).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent / "rewritten"))

from rewrites import REWRITES, original, rewritten, use

Call = tuple[tuple[Any, ...], dict[str, Any]]


def _of(*args: Any, **words: Any) -> Call:
    return args, words


def _calls() -> dict[str, list[Call]]:
    """Of each function; what is below 0 or 1 is drawn as such."""
    torch.manual_seed(4)
    signed = [torch.randn(4, 6, dtype=torch.float64) for _ in range(2)]
    x, y, above = *signed, torch.rand(4, 6, dtype=torch.float64) + 0.5
    w, b, square = torch.randn(5, 6).double(), torch.randn(5).double(), torch.randn(6, 4).double()
    picture, deep = torch.randn(3, 4, 7, 6).double(), torch.randn(2, 3, 4, 6).double()
    four = torch.rand(4).double()
    half = torch.where(x > 0, x, -torch.inf)
    kernel = torch.randn(8, 4, 3, 2).double()
    mean, spread = torch.zeros(4).double(), torch.ones(4).double()
    causal = torch.ones(4, 4).tril().bool()
    reduced = [
        _of(x),
        _of(x, 1),
        _of(x, (0, 1)),
        _of(deep, dim=-1, keepdim=True),
        _of(x, dtype=torch.float32),
    ]
    products = [_of(x, square), _of(deep, deep.mT), _of(x, square[:, 0])]
    norms = [_of(x), _of(x, dim=-1), _of(x, 2, 1, True), _of(x, 1)]
    powers = [_of(above, power) for power in (2, 3, 0.5, -0.5, 1.7, y)]
    elements = [_of(x)]
    pairs = [_of(x, y), _of(x, 2), _of(x, y[0]), _of(torch.arange(3), torch.arange(3))]
    return {
        "softmax": [_of(x, -1), _of(x, dim=0), _of(half, 1), _of(x, 1, dtype=torch.float64)],
        "log_softmax": [_of(x, dim=0), _of(x, -1)],
        "linear": [_of(x, w, b), _of(deep, w, None), _of(deep, w, b), _of(x[0], w, b), _of(x, w[:1], b[:1])],
        "matmul": products, "@": products, "bmm": [_of(deep[0], deep[1].mT)],
        "layer_norm": [_of(x, (6,)), _of(deep, (4, 6), deep[0, 0], deep[1, 1], 1e-3)],
        "group_norm": [_of(picture, 2), _of(picture, 2, four, four, 1e-3)],
        "batch_norm": [
            _of(picture, mean, spread, four, four, True, 0.1, 1e-5),
            _of(x.T, mean, spread, four, four, True, 0.3, 1e-3),
            _of(picture, mean, spread, four, four, False, 0.1, 1e-5),
        ],
        "scaled_dot_product_attention": [
            _of(deep, deep, deep), _of(deep, deep, deep, is_causal=True), _of(deep, deep, deep, causal),
            _of(deep, deep, deep, attn_mask=x[:, :4], scale=0.3),
        ],
        "conv2d": [
            _of(picture, kernel), _of(picture, kernel, b.new_ones(8), (2, 1), 1, (1, 2)),
            _of(picture, kernel[:, :2], None, 1, "valid", 1, 2),
        ],
        "cross_entropy": [
            _of(x, torch.tensor([0, 3, 5, 1])), _of(half, half.argmax(1)), _of(x, above, reduction="sum"),
            _of(x, torch.tensor([0, 3, -100, 1])),
        ],
        "mse_loss": [_of(x, y, reduction=word) for word in ("mean", "sum", "none")],
        "binary_cross_entropy_with_logits": [_of(x, above / 2), _of(x, above / 2, reduction="sum")],
        "l1_loss": [_of(x, y), _of(x, y, reduction="sum")],
        "gelu": [_of(x), _of(x, approximate="tanh")],
        "silu": elements, "sigmoid": elements, "square": elements,
        "softplus": [_of(x), _of(x, 2.0), _of(50 * x)],
        "relu": [_of(x), _of(x.round())],
        "mean": reduced, "sum": [*reduced, _of(torch.arange(4))],
        "norm": norms,
        "var": [_of(x), _of(x, 1), _of(x, dim=0, unbiased=False), _of(x, (0, 1), True, True)],
        "normalize": [_of(x), _of(x, dim=0), _of(x, p=1.0, dim=1)],
        "pow": powers, "**": powers, "sqrt": [_of(above)], "rsqrt": [_of(above)],
        "/": [_of(x, above), _of(x, 3), _of(torch.arange(3), 2), _of(x, above[0])],
        "+": pairs, "*": pairs, "-": pairs,
        "chunk": [_of(x, 2), _of(x, 4, dim=-1), _of(deep, 2, -2)],
        "transpose": [_of(deep, 1, 2), _of(deep, -2, -1)],
        "flatten": [_of(deep), _of(deep, 1), _of(deep, 1, 2), _of(deep, start_dim=-2)],
    }  # fmt: skip


CALLS = _calls()


def _outcome(function: Callable[..., Any], call: Call) -> list[Any]:
    """Results, what was written into arguments, and gradients."""
    given = [
        arg.clone().requires_grad_(arg.is_floating_point()) if isinstance(arg, torch.Tensor) else arg
        for arg in call[0]
    ]
    has_running = len(given) == 8 and isinstance(given[1], torch.Tensor)  # mean and variance of batch_norm
    if has_running:
        given[1:3] = [arg.detach() for arg in given[1:3]]
    found = function(*given, **call[1])
    results = list(found) if isinstance(found, tuple) else [found]
    leaves = [arg for arg in given if isinstance(arg, torch.Tensor) and arg.requires_grad]
    if leaves:
        weights = [torch.linspace(0.5, 1.5, r.numel(), dtype=torch.float64).view(r.shape) for r in results]
        total = sum(((r * w)[torch.isfinite(r)]).sum() for r, w in zip(results, weights))
        results += torch.autograd.grad(total, leaves, allow_unused=True)
    return results + (given[1:3] if has_running else [])


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in REWRITES for name in REWRITES[kind] if name != "clip_grad_norm_"],
)
def test_a_rewrite_is_equal_to_what_it_replaces(kind: str, name: str) -> None:
    for call in CALLS[name]:
        ours, theirs = _outcome(REWRITES[kind][name], call), _outcome(original(name), call)
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9, equal_nan=True)
        assert any(x is not None for x in ours)


def test_clipping_is_equal_to_what_it_replaces() -> None:
    clip = REWRITES["clip_grad_norm_ by its formula"]["clip_grad_norm_"]
    found = []
    for function in (clip, original("clip_grad_norm_")):
        for limit in (0.5, 100.0):
            parameters = [torch.nn.Parameter(torch.ones(3, size)) for size in (2, 5)]
            for number, parameter in enumerate(parameters):
                parameter.grad = torch.arange(parameter.numel()).view(parameter.shape) + float(number)
            found.append([function(parameters, limit), *(p.grad for p in parameters)])
    torch.testing.assert_close(found[:2], found[2:])


def test_a_script_has_the_rewrites_in_the_place_of_functions() -> None:
    path = Path(__file__).parent / "unseen" / "scripts" / "arcface.py"
    text = path.read_text(encoding="utf-8")
    changed = rewritten(text, "linear by @")
    assert changed is not None
    compile(changed, path.name, "exec")
    assert "F.linear(" in text
    assert "F.linear(" not in changed
    assert "rewrites.use('linear by @')" in changed
    assert rewritten("import torch\nprint(torch.ones(3))\n", "linear by @") is None


@pytest.mark.parametrize("name", ["conv2d", "batch_norm", "gelu", "linear"])
def test_modules_call_the_rewrites_and_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(64, 2)]
    model, x = nn.Sequential(*layers).double(), torch.randn(2, 3, 4, 4).double()
    before = model(x)
    for module in [value for key, value in sys.modules.items() if key.startswith("torch.nn.modules.")]:
        if hasattr(module, "F"):
            monkeypatch.setattr(module, "F", module.F)  # put back afterwards
    kind = next(kind for kind in REWRITES if name in REWRITES[kind])
    composition, called = REWRITES[kind][name], []

    def noticed(*args: Any, **words: Any) -> Any:
        called.append(name)
        return composition(*args, **words)

    monkeypatch.setitem(REWRITES[kind], name, noticed)
    use(kind)
    torch.testing.assert_close(model(x), before)
    assert called == [name]
