# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Products whose float32 operands a GPU rounds to TF32 before it multiplies them: its results are made here
by rounding the operands, and recorded as those of a GPU.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from msprobe.check.run import check
from msprobe.replay.rounded_operands import to_bits
from msprobe.tensors.float32_products import roundings
from recorded_calls import call, saved, write_dump
from torch.nn import functional

# As torch has them unless a script sets others: products of matrices are not rounded, convolutions are.
DEFAULT = {
    "device": "cuda",
    "backends.cudnn.conv.fp32_precision": "tf32",
    "backends.cudnn.allow_tf32": True,
    "backends.cuda.matmul.fp32_precision": "none",
    "backends.cuda.matmul.allow_tf32": False,
}
CALLS = {
    "conv2d": (functional.conv2d, [(4, 8, 12, 12), (16, 8, 3, 3), (16,)]),
    "linear": (functional.linear, [(32, 96), (48, 96), (48,)]),
    "matmul": (torch.matmul, [(6, 32, 40), (6, 40, 24)]),
    "scaled_dot_product_attention": (functional.scaled_dot_product_attention, [(2, 3, 16, 24)] * 3),
}


def nearest(tensor: torch.Tensor, bits: int) -> torch.Tensor:
    """As matrix units do that do not cut off."""
    half = torch.ldexp(torch.ones_like(tensor), torch.frexp(tensor)[1] - bits - 2)
    return to_bits(tensor + half * tensor.sign(), bits)


def dump(folder: Path, name: str, change: Any, switches: dict[str, Any] | None, seed: int = 0) -> Path:
    """`change`: what is done to the operands, but not to what is added."""
    torch.manual_seed(seed)
    function, shapes = CALLS[name]
    prefix = "Torch" if name == "matmul" else "Functional"
    args = [torch.randn(shape) for shape in shapes]
    operands = [change(one) if one.dim() > 1 else one for one in args]
    record = call(
        [saved(folder, f"{i}.pt", one) for i, one in enumerate(args)],
        [saved(folder, "result.pt", function(*operands))],
    )
    if switches is not None:
        (folder / "diagnosis.json").write_text(json.dumps({"determinism": {"start": switches}}))
    return write_dump(
        folder,
        {f"{prefix}.{name}.0.forward": record},
        task="tensor",
        dump_data_dir=str(folder),
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("change", [to_bits, nearest])
@pytest.mark.parametrize("name", list(CALLS))
def test_what_was_asked_for_is_not_wrong(tmp_path: Path, name: str, change: Any, seed: int) -> None:
    switches = {**DEFAULT, "backends.cuda.matmul.allow_tf32": True}
    result = check(dump(tmp_path, name, lambda one: change(one, 10), switches, seed))
    switch = "cudnn.allow_tf32" if name == "conv2d" else "cuda.matmul.allow_tf32"
    assert result.exit_code == 0, result.calls[0].judgement.reason
    assert f"rounded to 10 bits (TF32), as torch.backends.{switch} says" in result.calls[0].judgement.reason


@pytest.mark.parametrize("name", list(CALLS))
def test_what_was_not_asked_for_is(tmp_path: Path, name: str) -> None:
    """With the switches of torch for products of matrices, and where none were recorded."""
    switches = None if name == "conv2d" else DEFAULT
    assert check(dump(tmp_path, name, lambda one: to_bits(one, 10), switches)).exit_code == 1


@pytest.mark.parametrize("name", list(CALLS))
def test_fewer_bits_than_were_asked_for_are_wrong(tmp_path: Path, name: str) -> None:
    switches = {**DEFAULT, "backends.cuda.matmul.allow_tf32": True}
    result = check(dump(tmp_path, name, lambda one: nearest(one, 7), switches))
    assert result.exit_code == 1
    assert "TF32" in result.calls[0].judgement.reason


def test_results_that_are_not_rounded_are_good_as_well(tmp_path: Path) -> None:
    assert check(dump(tmp_path, "conv2d", lambda one: one, DEFAULT)).exit_code == 0


def test_a_switch_of_another_device_says_nothing(tmp_path: Path) -> None:
    path = dump(tmp_path, "conv2d", lambda one: to_bits(one, 10), {**DEFAULT, "device": "cpu"})
    assert check(path).exit_code == 1


@pytest.mark.parametrize("text", ["", "[]", '{"determinism": 3}', '{"determinism": {"start": [1]}}'])
def test_a_file_of_switches_that_says_nothing(tmp_path: Path, text: str) -> None:
    path = dump(tmp_path, "conv2d", lambda one: one, None)
    (tmp_path / "diagnosis.json").write_text(text)
    assert check(path).exit_code == 0


def test_bits_are_cut_off() -> None:
    torch.manual_seed(0)
    numbers = torch.cat([torch.randn(1000), torch.tensor([0.0, -0.0, float("inf"), float("nan"), 3e38])])
    assert torch.equal(nearest(numbers, 7)[:1000], numbers[:1000].bfloat16().float())
    assert torch.equal(to_bits(numbers, 10)[:1003], to_bits(to_bits(numbers, 10), 10)[:1003])
    assert to_bits(numbers, 7)[1002] == float("inf")
    assert to_bits(numbers, 7)[1003].isnan()
    assert to_bits(torch.tensor(-1 - 3 * 2.0**-11), 10) == -1 - 2.0**-10


@pytest.mark.parametrize(
    ("switches", "device", "found"),
    [
        ({"backends.cudnn.allow_tf32": True}, "cuda", {"conv": "tf32", "rnn": "tf32"}),
        ({"backends.cudnn.allow_tf32": True}, "cpu", {}),
        ({"backends.mkldnn.matmul.fp32_precision": "bf16"}, "cpu", {"matmul": "bf16"}),
        (
            {"backends.fp32_precision": "tf32", "backends.cuda.matmul.fp32_precision": "none"},
            "cuda",
            {"matmul": "tf32"},
        ),
        ({"backends.cuda.matmul.fp32_precision": "ieee"}, "cuda", {}),
        ({"backends.cuda.matmul.allow_tf32": "unreadable"}, "cuda", {}),
        ({"npu.conv.allow_hf32": True, "npu.matmul.allow_hf32": False}, "npu", {"conv": "hf32"}),
    ],
)
def test_what_switches_ask_for(switches: dict[str, Any], device: str, found: dict[str, str]) -> None:
    assert {kind: one.format for kind, one in roundings(switches, device).items()} == found
