# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Property tests: errors of results of every pair of dtypes and every layout, against torch in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from msprobe import InvalidArgument, UnsupportedError, _core, _torch

RESULTS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
REFERENCES = ["float64", "float32"]


def options(**values: Any) -> _core.ResultOptions:
    made = _core.ResultOptions()
    made.epsilon = 2.0**-23
    made.small_value = 0.25
    made.small_error = 1e-4
    made.relative_error = 1e-3
    for name, value in values.items():
        setattr(made, name, value)
    return made


def expected(d: torch.Tensor, b: torch.Tensor, o: _core.ResultOptions) -> dict[str, float]:
    """Literally what the header says."""
    rounded = b.to(torch.float32 if d.dtype == torch.bfloat16 else d.dtype).double()
    d, b = d.double(), b.double()
    finite = torch.isfinite(d) & torch.isfinite(rounded)
    small = finite & (b.abs() <= o.small_value)
    normal = finite & ~small
    error = (d - b).abs()
    relative = error / (b.abs() + o.epsilon)
    exponent = torch.frexp(b.abs())[1] - 1  # b = m * 2^e, m in [1, 2)
    exponent = torch.where(b == 0, o.ulp_zero_exponent, exponent).clamp(min=o.ulp_min_exponent)
    ulp = torch.ldexp(error, o.ulp_mantissa_bits - exponent)

    def most(x: torch.Tensor, mask: torch.Tensor) -> float:
        return x[mask].max().item() if mask.any() else 0.0

    return {
        "count": d.numel(),
        "finite_pairs": int(finite.sum()),
        "unequal": int((d != b).sum()),
        "greater": int((d > rounded).sum()),
        "less": int((d < rounded).sum()),
        "small": int(small.sum()),
        "normal": int(normal.sum()),
        "small_errors": int((small & (error > o.small_error)).sum()),
        "normal_errors": int((normal & (relative > o.relative_error)).sum()),
        "below_hundredth": int((finite & (relative < 0.01)).sum()),
        "below_thousandth": int((finite & (relative < 0.001)).sum()),
        "below_ten_thousandth": int((finite & (relative < 0.0001)).sum()),
        "dot": (d * b)[finite].sum().item(),
        "result_squares": (d * d)[finite].sum().item(),
        "reference_squares": (b * b)[finite].sum().item(),
        "max_result": most(d.abs(), finite),
        "max_reference": most(b.abs(), finite),
        "max_absolute": most(error, finite),
        "squared_error": (error**2)[finite].sum().item(),
        "normal_squared_error": (error**2)[normal].sum().item(),
        "max_relative": most(relative, normal),
        "sum_relative": relative[normal].sum().item(),
        "max_ulp": most(ulp, finite),
        "sum_ulp": ulp[finite].sum().item(),
        "ulp_errors": int((ulp[finite] > o.ulp_limit).sum()),
    }


def check(d: torch.Tensor, b: torch.Tensor, o: _core.ResultOptions | None = None, **more: Any) -> Any:
    o = o or options()
    found = _torch.measure_result(d, b, o, **more)
    for name, value in expected(d, b, o).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-12, nan_ok=True), name
    return found


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("result", RESULTS)
def test_all_measures_of_all_dtypes(result: str, reference: str) -> None:
    generator = torch.Generator().manual_seed(3)
    for count in (1, 2, 15, 16, 17, 1000, 1024, 1025, 5000):
        b = torch.randn(count, generator=generator, dtype=torch.float64) * 2
        d = (b * (1 + 1e-3 * torch.randn(count, generator=generator))).to(getattr(torch, result))
        check(d, b.to(getattr(torch, reference)))


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.t(),
        lambda x: x[::2, 1::3],
        lambda x: x.flip(0),
        lambda x: x[:, :1].expand(40, 30),
        lambda x: x[3:3],
        lambda x: x[5, 7],
    ],
)
def test_layouts(layout: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(40, 30, generator=torch.Generator().manual_seed(1))
    check(layout(x), layout(x.double() * 1.001))
    check(layout(x).contiguous(), layout(x.double() * 1.001))


def test_values_that_are_not_finite() -> None:
    inf, nan = math.inf, math.nan
    d = torch.tensor([1.0, inf, nan, -inf, 2.0, nan, 70000.0] * 30)
    b = torch.tensor([1.0, inf, nan, inf, nan, 2.0, inf] * 30, dtype=torch.float64)
    found = check(d, b)
    assert found.non_finite_errors == 30 * 4
    half = check(d.half(), torch.tensor([1.0, 66000.0, nan, -1e9, 2.0, nan, 1e9] * 30, dtype=torch.float64))
    assert half.non_finite_errors == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_ulp_is_that_of_the_dtype(dtype: str) -> None:
    """The next number is one unit in the last place away, whatever its size; also below the normal ones."""
    bits = {"float16": (10, -14), "bfloat16": (7, -126), "float32": (23, -126)}[dtype]
    kind = getattr(torch, dtype)
    info = torch.finfo(kind)
    numbers = torch.tensor(
        [1.0, 1.5, 1e-3, 7.25, info.tiny, info.tiny / 4, info.max / 3], dtype=torch.float64
    )
    b = numbers.to(kind)
    d = (
        torch.nextafter(b, torch.full_like(b, math.inf))
        if dtype != "float16"
        else (b.view(torch.int16) + 1).view(kind)
    )
    with_bits = options(ulp_mantissa_bits=bits[0], ulp_min_exponent=bits[1], ulp_zero_exponent=bits[1])
    found = _torch.measure_result(d, b.double(), with_bits)
    assert found.max_ulp == 1
    assert found.sum_ulp == len(numbers)
    assert found.ulp_percentile_99 == 1


def test_bounds_with_terms() -> None:
    generator = torch.Generator().manual_seed(5)
    b = torch.randn(3000, generator=generator, dtype=torch.float64)
    d = (b + 1e-4 * torch.randn(3000, generator=generator)).float()
    terms = torch.rand(3000, generator=generator, dtype=torch.float64)
    o = options(bound_constant=1e-5, bound_value=1e-4, bound_terms=1e-3)
    found = check(d, b, o, terms=terms)
    bound = 1e-5 + 1e-4 * b.abs() + 1e-3 * terms
    excess = (d.double() - b).abs() / bound
    assert found.max_excess == pytest.approx(excess.max().item(), rel=1e-12)
    assert found.max_excess_index == int(excess.argmax())
    assert found.max_bound == pytest.approx(bound.max().item(), rel=1e-12)


def test_threads_and_denormals_change_nothing() -> None:
    b = torch.randn(300_000, dtype=torch.float64) * 1e-39
    d = b.float()
    alone = check(d, b)
    for threads in (2, 5):
        found = _torch.measure_result(d, b, options(), threads=threads)
        assert (found.dot, found.sum_ulp) == (alone.dot, alone.sum_ulp)
    torch.set_flush_denormal(True)
    try:
        assert _torch.measure_result(d, b, options()).max_absolute == alone.max_absolute
    finally:
        torch.set_flush_denormal(False)


def test_integers_and_bools() -> None:
    big = torch.tensor([2**60, 2**60 + 1, -5])
    assert _torch.measure_result(big, big.clone(), options()).unequal == 0
    assert _torch.measure_result(big, torch.tensor([2**60, 2**60, -5]), options()).unequal == 1
    assert (
        _torch.measure_result(torch.tensor([True, False]), torch.tensor([True, True]), options()).unequal == 1
    )
    assert _torch.measure_result(big.int(), big, options()).unequal == 2


def test_buffers_without_torch() -> None:
    d, b = np.float32([1.0, 2.5]), np.float64([1.0, 2.0])
    found = _core.measure_result(d, b, options())
    assert (found.count, found.max_absolute, found.max_absolute_index) == (2, 0.5, 1)
    halves = np.array([0x3F80, 0x4000], dtype=np.uint16)  # 1 and 2
    assert _core.measure_result(halves, b, options(), result_dtype="bfloat16").unequal == 0


def test_what_cannot_be_measured() -> None:
    with pytest.raises(InvalidArgument, match="same shape"):
        _torch.measure_result(torch.ones(2), torch.ones(3), options())
    with pytest.raises(InvalidArgument, match="terms"):
        _torch.measure_result(torch.ones(2), torch.ones(2), options(), terms=torch.ones(3))
    with pytest.raises(UnsupportedError, match="real"):
        _torch.measure_result(torch.ones(2, dtype=torch.complex64), torch.ones(2), options())
    with pytest.raises(UnsupportedError):
        _torch.measure_result(torch.ones(2).to_sparse(), torch.ones(2), options())
