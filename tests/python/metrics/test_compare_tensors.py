# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Property tests: metrics of every pair of dtypes and every layout against NumPy, sums in extended precision,
relative errors in the tensors' own type."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from msprobe import InvalidArgument, _core

FLOATS = ["float64", "float32", "float16", "bfloat16"]
FP8 = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
INTS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]
COMPLEX = ["complex32", "complex64", "complex128"]
REAL = [*FLOATS, *FP8, *INTS]
EPS = 2.0**-52
INF, NAN = math.inf, math.nan

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf:UserWarning")


def raw_of(x: torch.Tensor) -> np.ndarray:
    """The elements in a dtype that a buffer can have."""
    if x.dtype in (torch.complex64, torch.complex128) or x.dtype is torch.bool:
        return x.numpy()
    if x.dtype is torch.complex32:
        return torch.view_as_real(x).contiguous().numpy().view(np.uint32)[..., 0]
    name = str(x.dtype).removeprefix("torch.")
    if name == "bfloat16":
        return x.view(torch.int16).numpy().view(np.uint16)
    return x.view(torch.uint8).numpy() if name in FP8 else x.numpy()


def compare(left: torch.Tensor, right: torch.Tensor, **options: Any) -> dict[str, Any]:
    names = {"target_dtype": str(left.dtype)[6:], "reference_dtype": str(right.dtype)[6:]}
    return dict(_core.compare_tensors(raw_of(left), raw_of(right), **names, **options))


def own(x: torch.Tensor) -> np.ndarray:
    """As NumPy would hold it; bfloat16 and fp8 become float32, integers and bool float64."""
    if x.dtype.is_complex:
        return x.to(torch.complex128).numpy().reshape(-1)
    if not x.dtype.is_floating_point:
        return x.numpy().astype(np.float64).reshape(-1)
    if x.dtype in (torch.float64, torch.float32, torch.float16):
        return x.numpy().reshape(-1)
    return x.float().numpy().reshape(-1)


def relative_error(n: np.ndarray, b: np.ndarray, float16_arithmetic: bool) -> np.ndarray:
    """Section 8.1 of mindstudio-probe's behaviour, literally."""
    n, b = n.copy(), b.copy()
    if not float16_arithmetic:
        n = n.astype(np.float32) if n.dtype == np.float16 else n
        b = b.astype(np.float32) if b.dtype == np.float16 else b
    if {n.dtype, b.dtype} == {np.dtype(np.float64), np.dtype(np.float32)}:
        n, b = n.astype(np.float64), b.astype(np.float64)
    zero = b == 0
    with np.errstate(all="ignore"):
        n[zero] += n.dtype.type(EPS)
        b[zero] += b.dtype.type(EPS)
        return np.asarray(np.abs((n - b) / b))


@np.errstate(all="ignore")
def check(left: torch.Tensor, right: torch.Tensor, **options: Any) -> dict[str, Any]:
    m = compare(left, right, **options)
    own_n, own_b = own(left), own(right)
    if options.get("real_part_only"):
        own_n, own_b = own_n.real, own_b.real
    is_complex = np.iscomplexobj(own_n) or np.iscomplexobj(own_b)
    wide = np.complex128 if is_complex else np.float64
    n, b = own_n.astype(wide), own_b.astype(wide)
    nan_n, nan_b, inf_n, inf_b = np.isnan(n), np.isnan(b), np.isinf(n), np.isinf(b)
    if is_complex:
        inf_n, inf_b = inf_n & ~nan_n, inf_b & ~nan_b
    finite = np.isfinite(n) & np.isfinite(b)
    neither = ~np.isfinite(n) & ~np.isfinite(b)
    assert m["count"] == n.size
    assert m["finite_pairs"] == finite.sum()
    assert m["both_non_finite"] == neither.sum()
    assert m["different_kind"] == (neither & (nan_n != nan_b)).sum()
    assert m["one_sided"] == (np.isfinite(n) != np.isfinite(b)).sum()
    assert (m["target_nan_count"], m["reference_nan_count"]) == (nan_n.sum(), nan_b.sum())
    assert (m["target_inf_count"], m["reference_inf_count"]) == (inf_n.sum(), inf_b.sum())

    n, b = n[finite], b[finite]
    extended = np.clongdouble if is_complex else np.longdouble
    en, eb = n.astype(extended), b.astype(extended)
    assert close(m["dot"], (en.conj() * eb).real)
    assert close(m["squared_distance"], np.abs((n - b).astype(extended)) ** 2)
    for side, x in (("target", en), ("reference", eb)):
        assert close(m[f"{side}_sum"], x.real)
        assert close(m[f"{side}_sum_imag"], x.imag)
        assert close(m[f"{side}_squares"], np.abs(x) ** 2)
        if is_complex or x.size == 0:
            assert m[f"{side}_min"] is None
            assert m[f"{side}_max"] is None
        else:
            assert (m[f"{side}_min"], m[f"{side}_max"]) == (x.min(), x.max())

    half = bool(options.get("float16_arithmetic"))
    r = relative_error(own_n[finite], own_b[finite], half)
    known = r[~np.isnan(r)]
    assert m["relative_nan"] == np.isnan(r).sum()
    if is_complex:  # NumPy divides complex numbers with other roundings
        assert m["max_relative"] == pytest.approx(float(known.max(initial=0)), rel=1e-14)
    else:
        assert m["below_thousandth"] == (r < 0.001).sum()
        assert m["below_five_thousandths"] == (r < 0.005).sum()
        assert m["max_absolute"] == np.abs(n - b).max(initial=0)
        assert m["max_relative"] == known.max(initial=0)
        everywhere = np.where(finite, np.abs(np.where(finite, own_n.astype(wide) - own_b.astype(wide), 0)), 0)
        assert m["max_absolute_index"] == (everywhere.argmax() if everywhere.max(initial=0) > 0 else None)
        r_everywhere = np.zeros(finite.size)
        r_everywhere[finite] = np.nan_to_num(r, nan=0, posinf=INF)
        assert m["max_relative_index"] == (r_everywhere.argmax() if r_everywhere.max(initial=0) > 0 else None)
    if left.dtype == right.dtype and not options.get("real_part_only"):
        a, c = (np.ascontiguousarray(raw_of(x)).reshape(-1) for x in (left, right))
        same = (
            a.view(np.uint8).reshape(a.size, a.itemsize) == c.view(np.uint8).reshape(c.size, c.itemsize)
        ).all(axis=1)
        assert m["equal_bits"] == same.sum()
        assert m["first_difference"] == (None if same.all() else int(same.argmin()))
    return m


def close(found: float | None, terms: np.ndarray) -> bool:
    """A sum in double next to the same in extended precision: within rounding of the sizes of its terms."""
    assert found is not None
    size = float(np.abs(terms).sum())
    return abs(found - float(terms.sum())) <= 1e-13 * max(size, 1e-300)


def make(name: str, count: int, seed: int) -> torch.Tensor:
    """Random values over the whole character of the dtype, a tenth of them zero."""
    g = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, name)
    if name in FP8:
        return torch.randint(0, 256, (count,), generator=g, dtype=torch.uint8).view(dtype)
    if name == "bool":
        return torch.rand(count, generator=g) < 0.3
    if name in COMPLEX:
        parts = torch.randn(count, 2, generator=g, dtype=torch.float64)
        parts[torch.rand(count, generator=g) < 0.1] = 0
        return torch.view_as_complex(parts).to(torch.complex64).to(dtype)
    if name in FLOATS:
        x = torch.randn(count, generator=g, dtype=torch.float64)
        x[torch.rand(count, generator=g) < 0.1] = 0
        return x.to(dtype)
    low = max(torch.iinfo(dtype).min, -100)
    return torch.randint(low, 101, (count,), generator=g).to(dtype)


def near(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Values next to those of `x`, some of them equal."""
    g = torch.Generator().manual_seed(seed)
    step = torch.randn(x.shape, generator=g, dtype=torch.float64) * 0.003
    step[torch.rand(x.shape, generator=g) < 0.2] = 0
    return (x.double() * (1 + step)).to(x.dtype)


@pytest.mark.parametrize("left", REAL)
@pytest.mark.parametrize("right", REAL)
def test_every_pair_of_real_dtypes(left: str, right: str) -> None:
    for count in (1, 37, 1500):
        check(make(left, count, 1), make(right, count, 2))


# What mindstudio-probe (8.1.1) wrote for these: cosine (None: undefined), distance, largest errors, shares.
GOLDEN = [
    ([1.0005, 2, 3, 4], [1, 2, 3, 4], 1, 0.0004999637603759766, 0.00049996376, 0.00049996376, 1, 1),
    ([1.003, 2, 3, 4], [1, 2, 3, 4], 1, 0.003000020980834961, 0.003000020981, 0.003000020981, 0.75, 1),
    ([10, 2, 3], [1, 2, 3], 0.578261923427, 9, 9, 9, 0.666666666667, 0.666666666667),
    ([-1, -2, -3], [1, 2, 3], -1, 7.483314773547883, 6, 2, 0, 0),
    ([1e-4, -1e-4], [1e-4, 1e-4], 0, 0.000199999994947575, 0.000199999995, 2, 0.5, 0.5),
    ([1e-5, 2e-6], [1e-5, 0], 0.980580674833, 1.999999994950485e-06, 2e-06, 9007199232, 0.5, 0.5),
    ([1, 1e-3], [1, 0], 1, 0.001000000047497451, 0.001000000047, 4503599841280, 0.5, 0.5),
    ([1, 1, 1], [0, 0, 0], None, 1.732050807568877, 1, 4503599627370496, 0, 0),
    ([1, NAN, 3], [1, NAN, 3], 1, 0, 0, 0, 1, 1),
    ([1, INF, 3], [1, -INF, 3], 1, 0, 0, 0, 1, 1),
]


@pytest.mark.parametrize(("n", "b", "cosine", "distance", "absolute", "relative", "one", "five"), GOLDEN)
def test_what_the_existing_tool_reports_follows(
    n: list[float],
    b: list[float],
    cosine: float | None,
    distance: float,
    absolute: float,
    relative: float,
    one: float,
    five: float,
) -> None:
    m = compare(torch.tensor(n), torch.tensor(b))
    size = math.sqrt(m["target_squares"] * m["reference_squares"])
    if cosine is not None:
        found = round(m["dot"] / size, 12)
        assert (round(found, 6) if found > 0.9999 else found) == cosine
    assert math.sqrt(m["squared_distance"]) == pytest.approx(distance, rel=1e-15)
    assert round(m["max_absolute"], 12) == absolute
    assert round(m["max_relative"], 12) == relative
    # It sets what is NaN or Inf on both sides to zero, and two zeros are no error.
    assert round((m["below_thousandth"] + m["both_non_finite"]) / m["count"], 12) == one
    assert round((m["below_five_thousandths"] + m["both_non_finite"]) / m["count"], 12) == five


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 1023, 1024, 1025, 3000, 65536, 65537, 200003])
def test_near_values_of_every_size(name: str, count: int) -> None:
    x = make(name, count, 3)
    check(near(x, 4), x)
    check(x, x)


@pytest.mark.parametrize("name", [*REAL])
@pytest.mark.parametrize("special", [None, 0.0, NAN, INF])
def test_blocks_of_equals_beside_others(name: str, special: float | None) -> None:
    """Both sides have the same bits but in one block, and in some places no finite number."""
    count = 9000
    x = make(name, count, 22)
    if special is not None and name in FLOATS:
        x[1500::700] = special
    y = x.clone()
    y[4100:4200] = make(name, 100, 23)
    check(x, x)
    check(x, y)
    check(y, x)
    if name == "float16":
        check(x, y, float16_arithmetic=True)


@pytest.mark.parametrize("left", [*COMPLEX, "float32", "int16"])
@pytest.mark.parametrize("right", COMPLEX)
def test_complex(left: str, right: str) -> None:
    a, b = make(left, 1500, 5), make(right, 1500, 6)
    if b.dtype is not torch.complex32:
        b[3] = complex(NAN, 1)
        b[4] = complex(INF, 1)
        b[5] = complex(INF, NAN)
    check(a, b)
    check(a, b, real_part_only=True)
    check(b, a, real_part_only=True)


@pytest.mark.parametrize("left", FLOATS)
@pytest.mark.parametrize("right", FLOATS)
def test_float16_arithmetic(left: str, right: str) -> None:
    for seed in (7, 8):
        check(make(left, 3000, seed), make(right, 3000, seed + 2), float16_arithmetic=True)


def test_float16_arithmetic_over_all_values() -> None:
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    generator = torch.Generator().manual_seed(9)
    for _ in range(4):
        check(every, every[torch.randperm(65536, generator=generator)], float16_arithmetic=True)
    next_ones = (torch.arange(65536, dtype=torch.int32) + 7).to(torch.int16).view(torch.float16)
    check(every, next_ones, float16_arithmetic=True)
    check(every, next_ones)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_thresholds_are_decided_as_numpy_decides_them(name: str) -> None:
    """Relative errors within a few last places of the thresholds, on both sides."""
    dtype = getattr(torch, name)
    g = torch.Generator().manual_seed(10)
    b = (torch.rand(100000, generator=g, dtype=torch.float64) + 0.5).to(dtype)
    for threshold in (0.001, 0.005):
        steps = torch.randint(-3, 4, b.shape, generator=g).double() * 2.0**-23
        n = (b.double() * (1 + threshold + steps)).to(dtype)
        m = check(n, b)
        assert m["below_five_thousandths"] > 0
        check(n, b, float16_arithmetic=True)


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16"])
def test_huge_and_tiny_values(name: str) -> None:
    for scale in (1e30, 1e38, 1e-30, 1e-40, 1e-44):
        n = (make("float64", 3000, 11) * scale).to(getattr(torch, name))
        b = (make("float64", 3000, 12) * scale).to(getattr(torch, name))
        check(n, b)
        check(n, near(n, 13))


def test_float64_beyond_the_squares_overflows_as_in_numpy() -> None:
    m = compare(torch.tensor([1e200, 1.0]), torch.tensor([1.0, 1.0]))
    assert m["target_inf_count"] == 1  # float32: the value itself is Inf
    big = torch.tensor([1e200, 1.0], dtype=torch.float64)
    m = compare(big, torch.ones(2, dtype=torch.float64))
    assert m["finite_pairs"] == 2
    assert m["target_squares"] == INF
    assert (m["max_absolute"], m["target_max"], m["one_sided"]) == (1e200, 1e200, 0)


@pytest.mark.parametrize("name", FLOATS)
def test_nan_and_inf_anywhere(name: str) -> None:
    specials = torch.tensor([NAN, INF, -INF, 1.0, 0.0, -0.0], dtype=torch.float64)
    for count in (3, 40, 5000):
        for share in (0.001, 0.3, 1.0):
            n, b = make(name, count, 14), make(name, count, 15)
            g = torch.Generator().manual_seed(16)
            for x in (n, b):
                chosen = torch.rand(count, generator=g) < share
                some = specials[torch.randint(0, 6, (count,), generator=g)]
                x[chosen] = some[chosen].to(x.dtype)
            check(n, b)
    nothing = torch.full((5000,), NAN, dtype=getattr(torch, name))
    m = check(nothing, nothing)
    assert (m["finite_pairs"], m["both_non_finite"], m["equal_bits"]) == (0, 5000, 5000)
    assert (m["target_min"], m["max_absolute"], m["max_absolute_index"]) == (None, 0, None)
    infinite = torch.full((40,), INF, dtype=getattr(torch, name))
    m = check(infinite, -infinite)
    assert (m["both_non_finite"], m["different_kind"], m["equal_bits"]) == (40, 0, 0)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64", "int32", "complex64"])
def test_layouts(name: str) -> None:
    x, y = make(name, 90 * 70, 17).reshape(90, 70), make(name, 90 * 70, 18).reshape(90, 70)
    layouts = [
        (x.t(), y.t()),
        (x.t(), y.reshape(70, 90)),
        (x[::2, 3:], y[1::2, :67]),
        (x[0].expand(90, 70), y),
        (x, y[:, :1].expand(90, 70)),
        (x[0, 0].expand(90, 70), y[0, 0].expand(90, 70)),
    ]
    for left, right in layouts:
        check(left, right)
    flipped = np.ascontiguousarray(raw_of(x))[::-1, ::-1]
    named = {"target_dtype": name, "reference_dtype": name}
    straight = np.ascontiguousarray(flipped)
    other = raw_of(y)
    assert _core.compare_tensors(flipped, other, **named) == _core.compare_tensors(straight, other, **named)


@pytest.mark.parametrize("name", [*REAL, *COMPLEX])
def test_empty_and_0d(name: str) -> None:
    m = check(make(name, 0, 1), make(name, 0, 1))
    assert m == {**m, "count": 0, "dot": 0, "max_absolute": 0, "first_difference": None, "target_min": None}
    check(make(name, 1, 2).reshape(()), make(name, 1, 3).reshape(()))
    empty = make(name, 0, 1).reshape(3, 0, 2)
    assert compare(empty, empty)["count"] == 0


def test_other_shapes_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"found \[2, 3\] and \[3, 2\]"):
        compare(torch.ones(2, 3), torch.ones(3, 2))
    with pytest.raises(InvalidArgument, match="no dtype"):
        _core.compare_tensors(np.ones(2), np.ones(2), target_dtype="float23")


def test_integers_that_float64_cannot_tell_apart_differ_in_their_bits() -> None:
    n = torch.tensor([2**53, 2**53 + 1])
    m = compare(n, torch.tensor([2**53, 2**53]))
    assert (m["max_absolute"], m["equal_bits"], m["first_difference"]) == (0, 1, 1)


def test_different_dtypes_with_the_same_values_are_equal() -> None:
    b = make("bfloat16", 3000, 19)
    m = compare(b.float(), b)
    assert (m["equal_bits"], m["first_difference"], m["max_relative"]) == (3000, None, 0)
    assert compare(b.double(), b)["equal_bits"] == 3000


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float64", "int64", "complex64"])
def test_bit_equal_for_any_number_of_threads(name: str) -> None:
    count = 5 * 65536 + 1234
    n, b = make(name, count, 20), make(name, count, 21)
    if n.is_floating_point():
        n[70000] = NAN
    one = compare(n, b, threads=1)
    for threads in (2, 3, 8):
        assert compare(n, b, threads=threads) == one


def test_flush_to_zero_of_the_caller_changes_nothing() -> None:
    n, b = torch.full((100000,), 1e-44), torch.full((100000,), 3e-44)
    wanted = compare(n, b, threads=2)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no such mode")
    try:
        assert compare(n, b, threads=2) == wanted
    finally:
        torch.set_flush_denormal(False)


ON_ANOTHER_INSTRUCTION_SET = """
import json, sys, numpy as np
from msprobe import _core
g = np.random.default_rng(5)
found = {"set": _core.instruction_set()}
for name in ("float32", "float64", "float16"):
    n, b = g.standard_normal(70001), g.standard_normal(70001)
    b[::7] = 0
    n[5000:5040] = np.nan
    for own in (False, True):
        m = _core.compare_tensors(n.astype(name), b.astype(name), float16_arithmetic=own)
        found[f"{name} {own}"] = {k: v.hex() if isinstance(v, float) else v for k, v in m.items()}
    m = _core.compare_tensors(n.astype(name), n.astype(name))
    found[f"{name} equal"] = {k: v.hex() if isinstance(v, float) else v for k, v in m.items()}
n = g.integers(0, 65536, 70001).astype(np.uint16)
b = g.integers(0, 65536, 70001).astype(np.uint16)
m = _core.compare_tensors(n, b, target_dtype="bfloat16", reference_dtype="bfloat16")
found["bfloat16"] = {k: v.hex() if isinstance(v, float) else v for k, v in m.items()}
m = _core.compare_tensors(n, b, target_dtype="float16", reference_dtype="float16", float16_arithmetic=True)
found["every float16"] = {k: v.hex() if isinstance(v, float) else v for k, v in m.items()}
json.dump(found, sys.stdout)
"""


def on(instruction_set: str) -> dict[str, Any]:
    environment = {**os.environ, "MSPROBE_INSTRUCTION_SET": instruction_set}
    command = [sys.executable, "-c", ON_ANOTHER_INSTRUCTION_SET]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("instruction_set", ["AVX2", "SSE4", "SSSE3", "SSE2"])
def test_other_instruction_sets_give_the_same(instruction_set: str) -> None:
    other = on(instruction_set)
    if other.pop("set") != instruction_set:
        pytest.skip("this processor or build does not have it")
    best = on(_core.instruction_set())
    best.pop("set")
    if instruction_set == "AVX2":
        assert other == best
        return
    sums = {"dot", "squared_distance", "target_squares", "reference_squares"}  # without fused multiply-add
    for name, wanted in best.items():
        for key, value in wanted.items():
            if key in sums:
                found = float.fromhex(other[name][key])
                assert found == pytest.approx(float.fromhex(value), rel=1e-12), (name, key)
            else:
                assert other[name][key] == value, (name, key)
