# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Measuring the tensors of a pack: all plain ones at once gives what each alone gives."""

from __future__ import annotations

import math

import pytest
import torch
from msprobe.config_check.collecting import tensor_measurement
from msprobe.config_check.collecting.tensor_measurement import measure_all

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
OTHERS = (torch.int64, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn)


def tensors_of(dtype: torch.dtype) -> list[torch.Tensor]:
    values = torch.randn(300, 40, generator=torch.Generator().manual_seed(3)) * 20
    special = torch.tensor([math.nan, math.inf, -0.0, 1e300 if dtype == torch.float64 else 3.0])
    shapes = [values, values.t(), values[::3, 5:9], values[0, 0], values[:0], torch.zeros(7)]
    if dtype.is_floating_point and dtype.itemsize > 1:
        shapes += [special, special[:1], torch.full((5,), 70000.0)]
    return [one.to(dtype) for one in shapes]


def same(value: object) -> object:
    """Equal for NaN, too."""
    return repr(value)


@pytest.mark.parametrize("in_float32", [True, False])
@pytest.mark.parametrize("dtype", [*FLOATS, *OTHERS], ids=str)
def test_at_once_gives_what_each_alone_gives(dtype, in_float32):
    tensors = tensors_of(dtype)
    at_once = measure_all(tensors, "crc32", in_float32=in_float32)
    alone = tensor_measurement._measure_each(tensors, "crc32", in_float32)
    assert [same(one) for one in at_once] == [same(one) for one in alone]
    assert all("crc32" in one.fingerprint for one in at_once)


def test_numbers_beyond_float32_are_infinite():
    (one,) = measure_all([torch.tensor([1e300, -1e300], dtype=torch.float64)], "crc32", in_float32=True)
    assert one.statistics == {"max": math.inf, "min": -math.inf, "mean": 0.0, "norm": math.inf}


def test_what_is_no_plain_tensor_keeps_its_place():
    class Own(torch.Tensor):
        pass

    plain = torch.ones(3)
    lazy = torch.nn.LazyLinear(2).weight
    odd = [torch.eye(2).to_sparse(), torch.ones(2).as_subclass(Own), lazy, torch.ones(2, device="meta")]
    mixed = [plain, *odd, torch.nn.Parameter(plain * 2), torch.ones(2, dtype=torch.complex64).conj()]
    found = measure_all(mixed, "crc32", in_float32=True)
    assert [same(one) for one in found] == [
        same(tensor_measurement._measure(tensor_measurement._prepared(one), "crc32", True)) for one in mixed
    ]
    assert found[0].statistics["max"] == 1
    assert found[5].statistics["max"] == 2
    assert "unmeasured" in found[3].fingerprint
    assert "unmeasured" in found[4].fingerprint


def test_many_elements_are_shared_among_threads():
    tensors = [torch.randn(1 << 18) for _ in range(5)]
    at_once = measure_all(tensors, "crc32", in_float32=True)
    assert [same(one) for one in at_once] == [
        same(one) for one in (measure_all([t], "crc32", in_float32=True)[0] for t in tensors)
    ]
