# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Fused operators of NPUs on a CPU: they are what torch's own functions give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from msprobe import UnsupportedError
from msprobe.check.run import check
from msprobe.replay.npu_functions import reference_of
from torch.nn import functional

torch.manual_seed(7)
X = torch.randn(2, 6, 8)
ROW = torch.randn(8)


def reference(name: str) -> Any:
    found = reference_of(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "expected"),
    [
        ("npu_swiglu", (X,), {}, functional.silu(X[..., :4]) * X[..., 4:]),
        ("fast_gelu", (X,), {}, X * torch.sigmoid(X * 1.702)),
        ("npu_mish", (X,), {}, X * torch.tanh(functional.softplus(X))),
        ("npu_rms_norm", (X, ROW, 1e-3), {}, functional.rms_norm(X, [8], ROW, 1e-3)),
        ("npu_layer_norm_eval", (X, [8], ROW, ROW), {}, functional.layer_norm(X, [8], ROW, ROW)),
        (
            "npu_group_norm_silu",
            (X, torch.ones(6), torch.zeros(6), 3),
            {},
            functional.silu(functional.group_norm(X, 3)),
        ),
        ("npu_linear", (X, X[0], ROW[:6]), {}, X @ X[0].t() + ROW[:6]),
        ("npu_confusion_transpose", (X, (0, 2, 1), (2, 48), True), {}, X.transpose(1, 2).reshape(2, 48)),
        ("npu_confusion_transpose", (X, (1, 0), (2, 48), False), {}, X.reshape(2, 48).t()),
        ("npu_sort_v2", (X,), {"descending": True}, X.sort(-1, True).values),
        ("npu_scaled_masked_softmax", (X, X > 9, 2.0), {}, torch.softmax(X * 2, -1)),
        ("npu_moe_gating_top_k_softmax", (X,), {"k": 2}, torch.softmax(X, -1).topk(2).values),
        (
            "npu_rotary_mul",
            (X, ROW, ROW),
            {"rotary_mode": "interleave"},
            X * ROW
            + torch.view_as_real(torch.view_as_complex(X.reshape(2, 6, 4, 2)) * 1j).reshape(X.shape) * ROW,
        ),
    ],
)
def test_results_are_those_of_torch(name: str, args: Any, kwargs: Any, expected: torch.Tensor) -> None:
    found = reference(name)(*args, **kwargs)
    found = found[0] if isinstance(found, tuple) else found
    torch.testing.assert_close(found, expected)
    halves = [
        value.bfloat16() if torch.is_tensor(value) and value.is_floating_point() else value for value in args
    ]
    half = reference(name)(*halves, **kwargs)
    half = half[0] if isinstance(half, tuple) else half
    assert half.dtype is torch.bfloat16
    torch.testing.assert_close(half.float(), expected, rtol=0.05, atol=0.05)


HEADS = 2


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
@pytest.mark.parametrize("mode", [0, 2, 3])
def test_attention_in_each_layout(layout: str, mode: int) -> None:
    q, k, v = (torch.randn(3, HEADS, 5, 4) for _ in range(3))  # batch, heads, sequence, width
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1) if mode == 0 else torch.ones(2048, 2048).triu(1).bool()
    expected = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)

    def there(x: torch.Tensor) -> torch.Tensor:
        return {
            "BNSD": lambda: x,
            "BSND": lambda: x.transpose(1, 2),
            "BSH": lambda: x.transpose(1, 2).flatten(2),
            "SBH": lambda: x.permute(2, 0, 1, 3).flatten(2),
        }[layout]()

    (found,) = reference("npu_fusion_attention")(
        *map(there, (q, k, v)), HEADS, layout, atten_mask=mask, scale=0.3, sparse_mode=mode
    )
    torch.testing.assert_close(found, there(expected))


def test_attention_of_packed_sequences_and_masked_rows() -> None:
    q, k, v = (torch.randn(7, HEADS, 4, requires_grad=True) for _ in range(3))
    (found,) = reference("npu_fusion_attention")(
        q, k, v, HEADS, "TND", actual_seq_qlen=(3, 7), actual_seq_kvlen=(3, 7)
    )
    for part in (slice(0, 3), slice(3, 7)):
        rows = [x[part].transpose(0, 1) for x in (q, k, v)]
        expected = functional.scaled_dot_product_attention(*rows, scale=1.0).transpose(0, 1)
        torch.testing.assert_close(found[part], expected)
    masked = torch.ones(7, 7, dtype=torch.bool)
    (nothing,) = reference("npu_fusion_attention")(q, k, v, HEADS, "TND", atten_mask=masked)
    assert not nothing.any()
    (gradient,) = torch.autograd.grad(nothing.sum(), q)
    assert not gradient.isnan().any()
    with pytest.raises(UnsupportedError, match="random"):
        reference("npu_fusion_attention")(q, k, v, HEADS, "TND", keep_prob=0.5)


@pytest.mark.parametrize("error", [0.0, 0.02])
def test_a_result_of_an_npu_is_judged_on_a_cpu(error: float, tmp_path: Path) -> None:
    x, gamma = torch.randn(8, 64), torch.randn(64)
    result = functional.rms_norm(x, [64], gamma, 1e-6) * (1 + error)
    folder = tmp_path / "dump_tensor_data"
    folder.mkdir()

    def record(tensor: torch.Tensor, name: str) -> dict[str, Any]:
        torch.save(tensor, folder / name)
        shape = list(tensor.shape)
        return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape, "data_name": name}

    call = {
        "input_args": [record(x, "x.pt"), record(gamma, "gamma.pt")],
        "input_kwargs": {"epsilon": {"type": "float", "value": 1e-6}},
        "output": [record(result, "y.pt")],
    }
    path = tmp_path / "dump.json"
    content = {
        "task": "tensor",
        "level": "L1",
        "dump_data_dir": "x",
        "data": {"NPU.npu_rms_norm.0.forward": call},
    }
    path.write_text(json.dumps(content))
    found = check(path, results="recorded")
    assert found.agrees == (error == 0)
    assert found.calls[0].judgement.count == 64
