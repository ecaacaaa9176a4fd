# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe doctor --device: are tensors of this device measured right? Each of a list of tensors is measured
on the device, by the kernel and by operators of torch, and in float64 on the host.
"""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.native import InvalidArgument, import_torch, torch_adapter

if TYPE_CHECKING:
    from collections.abc import Iterator

WAYS = ("kernel", "operators")

# What sums of floats may be off by, in parts of the norm: chains of up to 32 float32 additions.
_TOLERANCE = 4e-6
_SIZES = (0, 1, 2, 7, 8, 9, 255, 256, 1023, 1024, 1025, 4095, 4097, 65_537, (1 << 20) + 3)
_PLACES = (*range(40), *range(1000, 1040), 2046, 2047, 2048, 2999)  # of what is not finite
_HUGE = (1 << 31) + 3
_DTYPES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128",
)  # fmt: skip
_NUMBERS = ("count", "min", "max", "mean", "norm", "sum_abs", "zero_count", "small_count", "interval_counts")
_SHOWN = 20


@dataclass
class Answer:
    """What the measurements came to."""

    device: str
    ways: dict[str, str] = field(default_factory=dict)  # by which way, and why
    measured: int = 0
    differences: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        lines = [f"{self.device}: {text}" for text in self.ways.values()]
        lines += [f"{self.device}: not tried: {text}" for text in self.left_out]
        lines += self.differences[:_SHOWN]
        if len(self.differences) > _SHOWN:
            lines.append(f"and {len(self.differences) - _SHOWN} more")
        if self.differences:
            lines.append(f"{self.device}: {len(self.differences)} of {self.measured} measurements are wrong")
        else:
            lines.append(f"{self.device}: all {self.measured} measurements are right")
        return lines


def check_device(name: str) -> Answer:
    """Measures on `name`, "cuda", "cuda:1" or "cpu", where the processor stands in for a device."""
    torch: Any = import_torch()
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidArgument(f"--device: no device {name}: {first}") from None
    answer = Answer(str(device))
    for way in WAYS:
        with measured_by(way):
            answer.ways[way] = torch_adapter().way_of_device(name)
    ways = [way for way in WAYS if way != "kernel" or answer.ways[way].startswith("kernel")]
    for case in _cases(torch, device, answer):
        expected = _expected(torch, case)
        for way in ways:
            answer.measured += 1
            answer.differences += [f"{way}: {text}" for text in _differences(case, way, expected)]
    return answer


@contextlib.contextmanager
def measured_by(way: str) -> Iterator[None]:
    adapter = torch_adapter()
    adapter.set_device_way(way)
    try:
        yield
    finally:
        adapter.set_device_way("none")


@dataclass(frozen=True)
class _Case:
    name: str
    tensor: Any
    by_kernel: bool = True  # else operators measure it, kernel or not: it has too many dimensions


def _dtypes(torch: Any) -> list[Any]:
    return [getattr(torch, name) for name in _DTYPES if hasattr(torch, name)]


def _cases(torch: Any, device: Any, answer: Answer) -> Iterator[_Case]:
    generator = torch.Generator().manual_seed(7)
    source = torch.randn(2 * _SIZES[-1], generator=generator, dtype=torch.float64) * 3

    def tensor(dtype: Any, count: int) -> Any:
        if dtype.is_complex:
            return torch.view_as_complex(source[: 2 * count].reshape(-1, 2)).to(dtype).to(device)
        return source[:count].to(dtype).to(device)

    for dtype in _dtypes(torch):
        for count in _SIZES:
            yield _Case(f"{dtype}, {count} elements", tensor(dtype, count))
        whole = tensor(dtype, 24 * 35 * 16 * 8)
        yield from _views(str(dtype), whole.reshape(24, 35, 16, 8))
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.complex64):
        for value in (math.nan, math.inf, -math.inf):
            for place in _PLACES:
                special = tensor(dtype, 3000).clone()  # of float64 in memory it is the source itself
                special[place] = value
                yield _Case(f"{dtype}, {value} at {place} of 3000", special)
    for scale in (1e-30, 1e-20, 1e20, 1e30):
        yield _Case(f"float32 of size {scale}", (source[:5000] * scale).float().to(device))
    yield from _huge(torch, device, answer)


def _views(name: str, x: Any) -> Iterator[_Case]:
    views = {
        "transposed": x.transpose(1, 2),
        "reversed dimensions": x.permute(3, 2, 1, 0),
        "every second row": x[::2],
        "every third column": x[..., ::3],
        "a part": x[1:, 3:, 2:9, 1:],
        "behind one element": x.flatten()[1:],
        "expanded": x[:, :1].expand(24, 35, 16, 8),
        "five dimensions": x.reshape(24, 5, 7, 16, 8).permute(4, 2, 0, 3, 1),
    }
    for kind, view in views.items():
        yield _Case(f"{name}, {kind}", view, kind != "five dimensions")


def _huge(torch: Any, device: Any, answer: Answer) -> Iterator[_Case]:
    """More elements than 32 bits can number, where they fit."""
    if device.type == "cpu":
        answer.left_out.append(f"{_HUGE} elements, which would take the processor minutes")
        return
    free = _free_bytes(torch, device)
    for dtype, bytes_each in ((torch.uint8, 1), (torch.bfloat16, 2)):
        if free < 2 * _HUGE * bytes_each or _free_bytes(torch, torch.device("cpu")) < 2 * _HUGE * bytes_each:
            answer.left_out.append(f"{_HUGE} elements of {dtype}, for which there is no memory")
            continue
        x = torch.ones(_HUGE, dtype=dtype, device=device)
        x[-1] = 7
        x[1 << 31] = 5
        yield _Case(f"{dtype}, {_HUGE} elements", x)
        del x


def _free_bytes(torch: Any, device: Any) -> int:
    backend = getattr(torch, device.type, None)
    if backend is not None and device.type != "cpu" and hasattr(backend, "mem_get_info"):
        return int(backend.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _summary(x: Any, sketch: bool) -> dict[str, Any]:
    bounds = [] if x.is_complex() else [-1.0, 0.0, 0.5]
    summary: dict[str, Any] = torch_adapter().summarize(
        x, sketch=sketch, powers=True, small=0.25, bounds=bounds
    )
    return summary


def _expected(torch: Any, case: _Case) -> dict[str, Any]:
    return _summary(case.tensor.cpu(), sketch=True) | _in_float64(torch, case.tensor)


def _differences(case: _Case, way: str, expected: dict[str, Any]) -> list[str]:
    """What is wrong with one measurement, as sentences."""
    try:
        with measured_by(way):
            found = _summary(case.tensor, sketch=way == "kernel")
    except Exception as error:
        return [f"{case.name}: {type(error).__name__}: {error}"]
    size = expected["norm"] if math.isfinite(expected["norm"]) else 1.0
    wrong = []
    by_kernel = way == "kernel" and case.by_kernel
    for key in _NUMBERS:
        if key in expected and not _is_close(found.get(key), expected[key], size):
            wrong.append(key)
    kinds = ("nan_count", "pos_inf_count", "neg_inf_count")
    if by_kernel:
        wrong += [key for key in kinds if found[key] != expected[key]]
    elif sum(found[key] for key in kinds) != sum(expected[key] for key in kinds):
        wrong.append("not finite")
    if by_kernel and "sketch" in expected:
        theirs, ours = found.get("sketch"), expected["sketch"]
        if theirs is None or theirs["digest"] != ours["digest"]:
            wrong.append("digest")
        elif not all(_is_close(a, b, ours["norm"]) for a, b in zip(theirs["sums"], ours["sums"])):
            wrong.append("sketch")
    return [f"{case.name}: {key} = {found.get(key)} (on the host: {expected.get(key)})" for key in wrong]


def _in_float64(torch: Any, x: Any) -> dict[str, Any]:
    """The same by operators of torch in float64: an opinion of its own, of tensors that are not too large."""
    if x.numel() == 0 or x.numel() > 1 << 24 or x.is_complex():
        return {}
    host = x.cpu()
    values = (host.to(torch.float32) if host.dtype.itemsize == 1 else host).to(torch.float64)
    return {
        "min": float(values.min()),
        "max": float(values.max()),
        "mean": float(values.mean()),
        "norm": float(torch.linalg.vector_norm(values)),
    }


def _is_close(a: Any, b: Any, size: float) -> bool:
    if isinstance(b, list):
        return bool(a == b)
    if a is None or b is None:
        return a is b
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return bool(a == b or abs(a - b) <= _TOLERANCE * max(size, abs(b)))
