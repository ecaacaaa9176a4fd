# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Sketches against torch in double: what they tell of the distance of two tensors of any dtype and layout."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from msprobe import _torch

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
COMPLEX = [torch.complex64, torch.complex128]
DTYPES = [*FLOATS, *FP8, *INTS, *COMPLEX, torch.bool]

# Of a chi-squared variable of 8 degrees of freedom over 8: what 99 % of the estimates are within.
LEAST, MOST = 0.41, 1.66


def make(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(count, generator=g) < 0.5
    if dtype in INTS:
        return torch.randint(0, 100, (count,), generator=g).to(dtype)
    x = torch.randn(count, 2, generator=g, dtype=torch.float64)
    if dtype in COMPLEX:
        return torch.view_as_complex(x).to(dtype)
    return x[:, 0].to(dtype)


def exact(x: torch.Tensor) -> torch.Tensor:
    """The elements as float64; a complex one is two."""
    if x.dtype in COMPLEX:
        return torch.view_as_real(x).reshape(-1).to(torch.float64)
    return (x.to(torch.float32) if x.dtype in FP8 else x).reshape(-1).to(torch.float64)


def sketch(x: torch.Tensor, **options: Any) -> dict[str, Any]:
    found = _torch.summarize(x, sketch=True, **options)["sketch"]
    assert isinstance(found, dict)
    return found


def sums(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(sketch(x)["sums"], dtype=torch.float64)


def estimate(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((sums(a) - sums(b)).norm())


# How far a sum may be off, in parts of the norm: chains of float32 for 32-bit and smaller floats.
def tolerance(dtype: torch.dtype) -> float:
    return 1e-12 if dtype in (torch.float64, torch.complex128) or dtype in INTS else 2e-6


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [50, 1000, 70_000])
def test_the_estimate_is_within_its_bounds(dtype: torch.dtype, count: int) -> None:
    ratios = []
    for seed in range(60 if count < 10_000 else 12):
        a, b = make(dtype, count, seed), make(dtype, count, seed + 1000)
        truth = float((exact(a) - exact(b)).norm())
        ratios.append(estimate(a, b) / truth)
    outside = sum(not LEAST <= ratio <= MOST for ratio in ratios)
    assert outside <= 3, ratios
    assert sum(ratio**2 for ratio in ratios) / len(ratios) == pytest.approx(1, abs=0.5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("size", [1e-2, 1e-5])
def test_small_differences_are_seen_as_well(dtype: torch.dtype, size: float) -> None:
    outside = 0
    for seed in range(40):
        a = make(dtype, 3000, seed)
        b = a + size * make(dtype, 3000, seed + 500)
        ratio = estimate(a, b) / float((exact(a) - exact(b)).norm())
        outside += not LEAST <= ratio <= MOST
    assert outside <= 3


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_what_statistics_do_not_see(dtype: torch.dtype) -> None:
    """A permutation leaves maximum, minimum, mean and norm alone; so does another sign of two elements."""
    a = make(dtype, 4096, 1)
    permuted = a[torch.randperm(4096, generator=torch.Generator().manual_seed(2))]
    reversed_ = a.flip(0)
    shifted = a.roll(1)
    for b in (permuted, reversed_, shifted):
        assert estimate(a, b) > 0.5 * float(exact(a).norm())
    swapped = a.clone()
    swapped[7], swapped[11] = a[11], a[7]
    assert estimate(a, swapped) > 0


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32], ids=str)
@pytest.mark.parametrize("place", [0, 1, 15, 16, 1023, 1024, 65_535, 65_536, 69_999])
def test_one_element_is_seen_exactly(dtype: torch.dtype, place: int) -> None:
    a = torch.zeros(70_000, dtype=dtype)
    b = a.clone()
    b[place] = 3
    apart = sums(a) - sums(b)
    assert int((apart != 0).sum()) == 1
    assert float(apart.abs().max()) == 3


def test_sketches_are_linear() -> None:
    a, b = make(torch.float64, 5000, 1), make(torch.float64, 5000, 2)
    assert torch.allclose(sums(a) - sums(b), sums(a - b), rtol=0, atol=1e-11)
    assert torch.allclose(sums(3 * a), 3 * sums(a), rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_layout_does_not_matter(dtype: torch.dtype) -> None:
    flat = make(dtype, 24 * 35 * 8, 3)
    x = flat.reshape(24, 35, 8)
    views = [x.permute(2, 0, 1), x[:, ::2], x[1:, 3:, 2:5], x.transpose(0, 1)]
    if dtype not in FP8:
        views.append(x[:, :1].expand(24, 35, 8))
    scale = float(exact(flat).norm())
    for view in views:
        assert not view.is_contiguous()
        assert sketch(view)["digest"] == sketch(view.contiguous())["digest"]
        apart = sums(view) - sums(view.contiguous())
        assert float(apart.abs().max()) <= tolerance(dtype) * scale


@pytest.mark.parametrize("dtype", [*FLOATS, *FP8, torch.int32, torch.int8], ids=str)
def test_the_sums_depend_on_the_values_and_not_on_the_dtype(dtype: torch.dtype) -> None:
    x = make(dtype, 5000, 8)
    wide = exact(x)
    assert float((sums(x) - sums(wide)).abs().max()) <= 2e-6 * float(wide.norm())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_shards_at_their_places_add_up_to_the_whole(dtype: torch.dtype, dimension: int) -> None:
    x = make(dtype, 12 * 20 * 72, 9).reshape(12, 20, 72)
    whole = sketch(x)
    found, digest = torch.zeros(8, dtype=torch.float64), 0
    for rank, part in enumerate(x.chunk(4, dimension)):
        offsets = [0, 0, 0]
        offsets[dimension] = rank * part.shape[dimension]
        shard = sketch(part, shard=(list(x.shape), offsets))
        found += torch.tensor(shard["sums"], dtype=torch.float64)
        digest += shard["digest"]
    assert digest % 2**64 == whole["digest"]
    assert float((found - sums(x)).abs().max()) <= 2e-6 * whole["norm"]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nothing_else_changes_it(dtype: torch.dtype) -> None:
    """Threads, a checksum, bounds, another call: the same bits."""
    x = make(dtype, 300_001, 4)
    expected = sketch(x)
    for threads in (2, 3, 7):
        assert sketch(x, threads=threads) == expected
    for checksum in ("native", "float32"):
        apart = torch.tensor(sketch(x, checksum=checksum)["sums"]) - torch.tensor(expected["sums"])
        assert float(apart.abs().max()) <= tolerance(dtype) * expected["norm"]
        assert sketch(x, checksum=checksum) == sketch(x.clone(), checksum=checksum, threads=4)


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_counts_as_zero(dtype: torch.dtype, bad: float) -> None:
    x = make(dtype, 70_001, 5)
    places = torch.tensor([0, 31, 1024, 65_536, 70_000])
    with_bad, with_zero = x.clone(), x.clone()
    with_bad[places] = bad
    with_zero[places] = 0
    summary = _torch.summarize(with_bad, sketch=True)
    counts = {"nan_count": bad != bad, "pos_inf_count": bad == math.inf, "neg_inf_count": bad == -math.inf}
    if dtype not in COMPLEX:
        assert {key: summary[key] for key in counts} == {key: 5 * is_it for key, is_it in counts.items()}
    found, expected = sketch(with_bad), sketch(with_zero)
    values = exact(with_zero)
    scale = float(values.norm())
    assert max(abs(a - b) for a, b in zip(found["sums"], expected["sums"])) <= tolerance(dtype) * scale
    assert found["norm"] == pytest.approx(scale, rel=tolerance(dtype))
    finite = exact(with_bad)
    if dtype not in COMPLEX:
        finite = finite[finite.isfinite()]
        assert (found["min"], found["max"]) == (float(finite.min()), float(finite.max()))
        assert found["mean"] == pytest.approx(float(finite.mean()), abs=tolerance(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nothing_is_finite(dtype: torch.dtype) -> None:
    found = sketch(torch.full((100,), math.nan, dtype=dtype))
    assert found.pop("digest") != 0
    assert found == {"sums": [0.0] * 8, "min": 0.0, "max": 0.0, "mean": 0.0, "norm": 0.0}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mean_and_norm_are_sums_in_double(dtype: torch.dtype) -> None:
    x = make(dtype, 10_007, 6)
    found, values = sketch(x), exact(x)
    assert found["norm"] == pytest.approx(float(values.norm()), rel=tolerance(dtype))
    if dtype not in COMPLEX:
        assert found["mean"] == pytest.approx(
            float(values.mean()), abs=tolerance(dtype) * float(values.norm())
        )


def test_sketches_are_on_request_and_of_elements_only() -> None:
    x = make(torch.float32, 10, 7)
    assert "sketch" not in _torch.summarize(x)
    assert "sketch" not in _torch.summarize(x[:0], sketch=True)
    both = _torch.summarize(x, sketch=True, signs=True)
    assert both["sketch"] == _torch.summarize(x, sketch=True)["sketch"]
