# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Property tests: every statistic of every dtype and layout against torch in double."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from msprobe import InvalidArgument, UnsupportedError, _core, _torch
from processor_as_device import Way, as_device

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
FP8 = [
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8]
UINTS = [torch.uint64, torch.uint32, torch.uint16, torch.uint8]
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
REAL = [*FLOATS, *FP8, *INTS, *UINTS, torch.bool]
BOUNDS = [-1.0, -0.1, 0.0, 0.1, 1.0]


# torch says on first use that complex32 is experimental and that quantised tensors will go
pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf:UserWarning", "ignore:torch.quantize:UserWarning")


def make(dtype: torch.dtype, count: int, seed: int = 0) -> torch.Tensor:
    """Random values over the whole character of the dtype, a tenth of them zero."""
    g = torch.Generator().manual_seed(seed)
    if dtype in FP8:
        # every bit pattern, NaN and Inf included
        return torch.randint(0, 256, (count,), generator=g, dtype=torch.uint8).view(dtype)
    if dtype is torch.bool:
        return torch.rand(count, generator=g) < 0.3
    if dtype in COMPLEX:
        x = torch.randn(count, 2, generator=g, dtype=torch.float64)
        x[torch.rand(count, generator=g) < 0.1] = 0
        return torch.view_as_complex(x).to(torch.complex64).to(dtype)
    if dtype in FLOATS:
        x = torch.randn(count, generator=g, dtype=torch.float64)
        x[torch.rand(count, generator=g) < 0.1] = 0
        return x.to(dtype)
    info = torch.iinfo(dtype)
    small = torch.randint(max(info.min, -100), 101, (count,), generator=g)
    return small.to(dtype)


def exact(x: torch.Tensor) -> torch.Tensor:
    """The elements as float64, by numpy for what torch cannot convert."""
    return x.to(torch.float32).to(torch.float64) if x.dtype in FP8 else x.to(torch.float64)


def check(x: torch.Tensor, s: dict[str, Any], sum_tolerance: float) -> None:
    assert s["count"] == x.numel()
    d = exact(x)
    if d.numel() == 0:
        assert (s["min"], s["max"], s["mean"], s["norm"]) == (None, None, None, 0.0)
        return
    assert s["nan_count"] == int(d.isnan().sum())
    assert s["pos_inf_count"] == int((d == math.inf).sum())
    assert s["neg_inf_count"] == int((d == -math.inf).sum())
    assert s["zero_count"] == int((d == 0).sum())
    if s["nan_count"]:
        assert math.isnan(s["min"])
        assert math.isnan(s["max"])
        assert math.isnan(s["mean"])
        assert math.isnan(s["norm"])
        return
    assert s["min"] == float(d.min())
    assert s["max"] == float(d.max())
    if not bool(d.isfinite().all()):
        assert s["norm"] == math.inf
        assert s["mean"] == pytest.approx(float(d.mean()), nan_ok=True)
        return
    assert s["norm"] == pytest.approx(float(d.norm()), rel=sum_tolerance, abs=0)
    assert abs(s["mean"] - float(d.mean())) <= 2 * sum_tolerance * float(d.abs().mean())


# How far float chains of 16 or 32 may be off; everything else is summed in double.
TOLERANCE = {torch.float32: 5e-7, torch.float16: 1e-6, torch.bfloat16: 1e-6}


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("count", [0, 1, 7, 16, 31, 32, 100, 1023, 1024, 2049, 65535, 65536, 65537, 200_003])
def test_matches_torch_in_double(dtype: torch.dtype, count: int) -> None:
    x = make(dtype, count, seed=count)
    check(x, _torch.summarize(x), TOLERANCE.get(dtype, 1e-12))


WAYS: tuple[Way, ...] = ("kernel", "operators")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_devices_agree(dtype: torch.dtype, way: Way) -> None:
    if dtype in UINTS and dtype is not torch.uint8 and way == "operators":
        pytest.skip("torch has no conversions of this dtype on every device")
    x = make(dtype, 3001)
    if dtype is torch.float8_e5m2 and way == "operators":
        # Eight launches do not tell NaN from infinities where a tensor has both.
        x = torch.where(x.float().isinf(), 0.0, x.float()).to(dtype)
    bounds = BOUNDS
    native = _torch.summarize(x, bounds=bounds, signs=True, checksum="float32")
    with as_device(way):
        device = _torch.summarize(x, bounds=bounds, signs=True, checksum="float32")
    assert list(native) == list(device)
    for key, value in native.items():
        if isinstance(value, float):
            assert device[key] == pytest.approx(value, rel=1e-6, abs=1e-7, nan_ok=True), key
        else:
            assert device[key] == value, key


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf, -0.0])
@pytest.mark.parametrize("place", [0, 17, 2999, 70_000])
def test_one_special_value_anywhere(dtype: torch.dtype, special: float, place: int) -> None:
    x = make(dtype, 70_001)
    x[place] = special
    check(x, _torch.summarize(x), 1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_all_special_values_together(dtype: torch.dtype) -> None:
    for values in (
        [math.inf, -math.inf],
        [math.nan, math.inf],
        [math.inf] * 40,
        [-math.inf] * 3,
        [-0.0] * 33,
        [math.nan] * 70,
    ):
        x = torch.tensor(values, dtype=dtype)
        check(x, _torch.summarize(x), 1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-30, 1e-15, 1e-6, 1e4, 1e15, 1e25, 3e38])
def test_no_overflow_or_underflow_of_the_squares(dtype: torch.dtype, scale: float) -> None:
    x = (make(torch.float64, 5000).clamp(-1, 1) * scale).to(dtype)
    check(x, _torch.summarize(x), 1e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_all_positive_or_all_negative(dtype: torch.dtype, sign: int) -> None:
    x = (make(torch.float64, 5000).abs() + 1e-3).to(dtype) * sign
    check(x, _torch.summarize(x), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape(30, 1001).t(),
        lambda x: x.reshape(30, 1001)[:, ::3],
        lambda x: x.reshape(30, 1001)[5:20, 7:900],
        lambda x: x.reshape(10, 3, 1001).permute(2, 0, 1),
        lambda x: x[:1001].expand(8, 1001),
        lambda x: x[5],
        lambda x: x.reshape(30, 1001)[:, :0],
        lambda x: x[1:],
    ],
    ids=["transposed", "strided", "window", "permuted", "expanded", "0-d", "empty", "misaligned"],
)
def test_any_layout(dtype: torch.dtype, view: Any) -> None:
    x = view(make(dtype, 30 * 1001))
    s = _torch.summarize(x, signs=True, checksum="native", bounds=BOUNDS)
    check(x, s, 1e-6)
    same = _torch.summarize(x.contiguous(), signs=True, checksum="native", bounds=BOUNDS)
    assert s["signs"] == same["signs"]
    assert s["crc32"] == same["crc32"]
    assert s["interval_counts"] == same["interval_counts"]


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("count", [1, 8, 13, 2048, 2049, 70_001])
def test_signs_are_the_elements_above_zero(dtype: torch.dtype, count: int) -> None:
    x = make(dtype, count)
    got = np.unpackbits(np.frombuffer(_torch.summarize(x, signs=True)["signs"], np.uint8), bitorder="little")
    want = (exact(x) > 0).numpy()
    assert len(got) == (count + 7) // 8 * 8
    assert np.array_equal(got[:count], want)
    assert not got[count:].any()


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize(
    "bounds", [[0.0], BOUNDS, [float(i) / 7 for i in range(-40, 40)], [-math.inf, 0.3, math.inf]]
)
def test_intervals(dtype: torch.dtype, bounds: list[float]) -> None:
    x = make(dtype, 5003)
    if dtype in FLOATS:
        x[::50] = math.nan
        x[1::50] = -math.nan
        x[2::50] = math.inf
        x[3::50] = -math.inf
        x[4::50] = 0.3
    d = exact(x).numpy()
    b = np.array(bounds, np.float32).astype(np.float64)
    place = np.searchsorted(b, d, side="left")
    place[np.isnan(d)] = len(b)
    want = np.bincount(place, minlength=len(b) + 1).tolist()
    assert _torch.summarize(x, bounds=bounds)["interval_counts"] == want


def test_large_integers_are_not_rounded_onto_a_bound() -> None:
    x = torch.tensor([2**24, 2**24 + 1, 2**53 + 1, -(2**62) - 1], dtype=torch.int64)
    assert _torch.summarize(x, bounds=[float(-(2**62)), float(2**24), float(2**53)])["interval_counts"] == [
        1,
        1,
        1,
        1,
    ]


@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX], ids=str)
@pytest.mark.parametrize("count", [0, 1, 2048, 70_001])
def test_checksums(dtype: torch.dtype, count: int) -> None:
    x = make(dtype, count)
    raw = x.contiguous().view(torch.uint8) if count else torch.empty(0, dtype=torch.uint8)
    assert _torch.summarize(x, checksum="native")["crc32"] == zlib.crc32(raw.numpy().tobytes())
    if dtype in UINTS and dtype is not torch.uint8:
        return
    as_float = x.to(torch.complex64) if dtype in COMPLEX else x.to(torch.float32)
    assert _torch.summarize(x, checksum="float32")["crc32"] == zlib.crc32(as_float.numpy().tobytes())


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("count", [1, 5000, 70_001])
def test_complex(dtype: torch.dtype, count: int) -> None:
    x = make(dtype, count)
    s = _torch.summarize(x)
    d = x.to(torch.complex64).to(torch.complex128)
    assert (s["min"], s["max"]) == (None, None)
    assert s["norm"] == pytest.approx(float(torch.linalg.vector_norm(d)), rel=1e-12)
    assert complex(s["mean"], s["mean_imag"]) == pytest.approx(complex(d.mean()), rel=1e-9, abs=1e-12)
    assert s["zero_count"] == int((d == 0).sum())
    assert _torch.summarize(x.conj())["mean_imag"] == pytest.approx(-s["mean_imag"])
    for way in WAYS:
        with as_device(way):
            assert _torch.summarize(x)["norm"] == pytest.approx(s["norm"], rel=1e-6)


def test_complex_special_values() -> None:
    inf, nan = math.inf, math.nan
    values = [
        complex(nan, 1),
        complex(inf, nan),
        complex(inf, -inf),
        complex(1, -inf),
        complex(-inf, 0),
        complex(0, -0.0),
    ]
    x = torch.tensor(values, dtype=torch.complex64)
    expected = (2, 1, 2, 1)
    s = _torch.summarize(x)
    assert (s["nan_count"], s["pos_inf_count"], s["neg_inf_count"], s["zero_count"]) == expected
    with as_device("kernel"):
        s = _torch.summarize(x)
    assert (s["nan_count"], s["pos_inf_count"], s["neg_inf_count"], s["zero_count"]) == expected


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int8, torch.complex64], ids=str)
@pytest.mark.parametrize("count", [65_537, 1_000_003])
def test_bit_equal_for_any_number_of_threads(dtype: torch.dtype, count: int) -> None:
    x = make(dtype, count)
    options: dict[str, Any] = {"checksum": "float32"}
    if dtype is not torch.complex64:
        options |= {"bounds": BOUNDS, "signs": True}
    one = _torch.summarize(x, threads=1, **options)
    for threads in (2, 3, 8):
        assert _torch.summarize(x, threads=threads, **options) == one


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_optional_statistics_do_not_change_the_others(dtype: torch.dtype) -> None:
    x = make(dtype, 100_003)
    plain = _torch.summarize(x)
    full = _torch.summarize(x, bounds=BOUNDS, signs=True, checksum="native")
    assert {k: full[k] for k in plain if k != "crc32"} == {k: plain[k] for k in plain if k != "crc32"}


def test_independent_of_flush_to_zero() -> None:
    x = torch.full((1000,), 1e-40)
    plain = _torch.summarize(x, signs=True)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    try:
        assert _torch.summarize(x, signs=True) == plain
    finally:
        torch.set_flush_denormal(False)
    assert plain["zero_count"] == 0


INSTRUCTION_SETS = ["AVX3", "AVX2", "NEON", "SSE4", "SSSE3", "SSE2", "EMU128", "SCALAR"]
FUSED_MULTIPLY_ADD = {"AVX3", "AVX2", "NEON"}


def summaries_with(instruction_set: str, dtypes: str) -> tuple[str, str]:
    """The set that was really used and what it answered, from a process of its own."""
    code = f"""
import numpy as np
from msprobe import _core
g = np.random.default_rng(1)
print(_core.instruction_set())
for kind in {dtypes.split()}:
    for count in (1, 33, 1000, 70_003):
        x = (g.standard_normal(count) * 50).astype(kind)
        x[g.random(count) < 0.1] = 0
        print(kind, count, _core.summarize(x, signs=True, bounds=[-1.0, 0.0, 0.3], checksum="float32"))
        if kind[0] == "f" and count > 33:
            x[[7, 9, 30]] = np.nan, np.inf, -np.inf
            print(kind, count, _core.summarize(x, signs=True, bounds=[-1.0, 0.0, 0.3]))
"""
    environment = {**os.environ, "MSPROBE_INSTRUCTION_SET": instruction_set}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    used, _, answer = run.stdout.partition("\n")
    return used, answer


@pytest.mark.parametrize(
    ("dtypes", "sets"),
    [("f2 i2 u1 ?", set(INSTRUCTION_SETS)), ("f4 i4 i8", FUSED_MULTIPLY_ADD)],
    ids=["exact squares", "fused multiply-add"],
)
def test_bit_equal_for_every_instruction_set(dtypes: str, sets: set[str]) -> None:
    answers = dict(summaries_with(name, dtypes) for name in INSTRUCTION_SETS if name in sets)
    answers = {used: answer for used, answer in answers.items() if used in sets}
    if len(answers) < 2:
        pytest.skip("this processor has one such instruction set")
    first = next(iter(answers.values()))
    for used, answer in answers.items():
        assert answer == first, used


def test_unreadable_tensors_are_refused_by_name() -> None:
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(UnsupportedError, match="sparse"):
        _torch.summarize(sparse)
    with pytest.raises(UnsupportedError, match="meta"):
        _torch.summarize(torch.empty(3, device="meta"))
    with pytest.raises(UnsupportedError, match="QInt8"):
        _torch.summarize(torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bounds": [1.0, 0.0]}, "ascending"),
        ({"bounds": [0.0, 0.0]}, "ascending"),
        ({"bounds": [math.nan]}, "NaN"),
        ({"checksum": "md5"}, "checksum must be"),
    ],
)
def test_bad_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        _torch.summarize(torch.ones(3), **options)
    with pytest.raises(InvalidArgument, match=text):
        _core.summarize(np.ones(3), **options)


def test_signs_and_bounds_of_complex_are_refused() -> None:
    x = torch.ones(3, dtype=torch.complex64)
    with pytest.raises(InvalidArgument, match="complex"):
        _torch.summarize(x, signs=True)
    for way in WAYS:
        with as_device(way), pytest.raises(InvalidArgument, match="complex"):
            _torch.summarize(x, signs=True)


@pytest.mark.parametrize(
    "dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", "c8", "c16"]
)
def test_the_core_takes_any_buffer(dtype: str) -> None:
    x = (np.arange(-6, 6).reshape(3, 4).T % 5).astype(dtype)
    assert not x.flags.c_contiguous
    s = _core.summarize(x, checksum="native")
    assert s["count"] == 12
    assert s["norm"] == pytest.approx(float(np.linalg.norm(x.astype("c16"))))
    assert s["crc32"] == zlib.crc32(np.ascontiguousarray(x).tobytes())


def test_the_core_refuses_other_buffers() -> None:
    with pytest.raises(UnsupportedError, match="format"):
        _core.summarize(np.zeros(3, ">f4"))
    with pytest.raises(TypeError):
        _core.summarize([1.0, 2.0])  # type: ignore[arg-type]


def test_every_field_is_documented_and_returned() -> None:
    names = [name for name, meaning in _core.summary_fields() if meaning]
    assert list(_core.summarize(np.ones(3))) == names


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 1023, 1025, 70_001])
def test_powers_and_small_values_match_torch_in_double(dtype: torch.dtype, count: int) -> None:
    x = make(dtype, count, seed=count)
    s = _torch.summarize(x, powers=True, small=0.5, threads=2)
    d = exact(x).abs()
    limit = 0.5 if dtype in (torch.float64, *INTS, *UINTS) else float(torch.tensor(0.5, dtype=torch.float32))
    assert s["small_count"] == int((d < limit).sum())
    if bool(d.isnan().any()):
        assert math.isnan(s["sum_abs"])
        assert math.isnan(s["fourth_powers"])
    else:
        assert s["sum_abs"] == pytest.approx(float(d.sum()), rel=1e-6)
        assert s["fourth_powers"] == pytest.approx(float((d**4).sum()), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-42, 1e-37, 1e-30, 1e-12, 1, 1e12, 1e30, 1e37])
@pytest.mark.parametrize("outlier", [None, 0, 700, 1024, 4999])
def test_fourth_powers_keep_the_range_of_double(scale: float, outlier: int | None) -> None:
    """Also where a block has elements of very different size, or begins with zeros."""
    x = torch.randn(5000, generator=torch.Generator().manual_seed(1)) * scale
    x[1024:1500] = 0
    if outlier is not None:
        x[outlier] = 2e38
    s = _torch.summarize(x, powers=True, small=scale / 2)
    d = x.double()
    assert s["fourth_powers"] == pytest.approx(float((d**4).sum()), rel=1e-6, abs=1e-300)
    assert s["sum_abs"] == pytest.approx(float(d.abs().sum()), rel=1e-6, abs=0)
    assert s["small_count"] == int((x.abs() < torch.tensor(scale / 2)).sum())
    largest = torch.finfo(torch.float32).max
    whole = _torch.summarize(torch.full((3000,), -largest), powers=True)
    assert whole["sum_abs"] == pytest.approx(3000 * largest)
    assert whole["fourth_powers"] == pytest.approx(3000 * float(largest) ** 4)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_powers_of_complex_numbers_are_those_of_their_magnitudes(dtype: torch.dtype) -> None:
    x = make(dtype, 3001)
    s = _torch.summarize(x, powers=True, small=1.0)
    d = x.to(torch.complex128).abs()
    assert s["sum_abs"] == pytest.approx(float(d.sum()), rel=1e-12)
    assert s["fourth_powers"] == pytest.approx(float((d**4).sum()), rel=1e-12)
    assert s["small_count"] == int((d < 1.0).sum())


def test_powers_of_a_strided_tensor_and_any_number_of_threads_are_the_same() -> None:
    x = torch.randn(300, 701)
    alone = _torch.summarize(x.t(), powers=True, small=0.1)
    assert _torch.summarize(x.t(), powers=True, small=0.1, threads=3) == alone
    assert _torch.summarize(x.t().contiguous(), powers=True, small=0.1)["small_count"] == alone["small_count"]
    assert "sum_abs" in alone
    assert _torch.summarize(x)["sum_abs"] is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32], ids=str)
def test_devices_have_the_powers(dtype: torch.dtype, way: Way) -> None:
    x = make(dtype, 3001)
    native = _torch.summarize(x, powers=True, small=0.25)
    with as_device(way):
        device = _torch.summarize(x, powers=True, small=0.25)
    for key in ("sum_abs", "fourth_powers"):
        assert device[key] == pytest.approx(native[key], rel=1e-6)
    assert device["small_count"] == native["small_count"]
