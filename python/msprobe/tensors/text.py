# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors for a terminal."""

from __future__ import annotations

import math
import sys
from typing import Any

from msprobe.tensors.pairing import index_of

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.tensors.content import Content
    from msprobe.tensors.measuring import Histogram, Measured
    from msprobe.tensors.pairing import Paired

_BAR = 40


def number(value: float | int | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) or (math.isfinite(value) and value.is_integer() and abs(value) < 1e9):
        return str(int(value))
    return f"{value:.7g}"


def size_text(size: int) -> str:
    for unit, one in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= one:
            return f"{size / one:.1f} {unit}"
    return f"{size} bytes"


def shape_text(shape: tuple[int, ...] | list[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def head_line(content: Content) -> str:
    size = f"{content.elements} elements, {size_text(content.bytes)}"
    return f"{content.dtype} {shape_text(content.shape)}, {size}"


def measured_lines(content: Content, measured: Measured) -> list[str]:
    found = measured.statistics
    lines = [
        head_line(content),
        _line(found, ("min", "min"), ("max", "max"), ("mean", "mean"), ("std", "std"), ("norm", "norm")),
        _line(
            found, ("NaN", "nan_count"), ("+inf", "pos_inf_count"), ("-inf", "neg_inf_count"),
            ("zeros", "zero_count"),
        ),
    ]  # fmt: skip
    if measured.first:
        dots = ", ..." if content.elements > len(measured.first) else ""
        lines.append(f"first  {', '.join(map(number, measured.first))}{dots}")
    return lines + (histogram_lines(measured.histogram) if measured.histogram is not None else [])


def _line(found: dict[str, Any], *entries: tuple[str, str]) -> str:
    return "  ".join(f"{label} {number(found[key])}" for label, key in entries)


def histogram_lines(histogram: Histogram) -> list[str]:
    most = max([*histogram.counts, 1])
    mark = _mark()
    lows = [number(border) for border in histogram.borders[:-1]]
    highs = [number(border) for border in histogram.borders[1:]]
    left, right = max(map(len, lows)), max(map(len, highs))
    return [
        f"{low:>{left}} .. {high:>{right}}  {mark * math.ceil(_BAR * count / most):{_BAR}} {count}"
        for low, high, count in zip(lows, highs, histogram.counts)
    ]


def _mark() -> str:
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    return "\u2588" if encoding.replace("-", "") == "utf8" else "#"


def paired_lines(a: Content, b: Content, paired: Paired) -> list[str]:
    found = paired.metrics
    count = max(found["count"], 1)
    lines = [f"reference  {head_line(a)}", f"target     {head_line(b)}"]
    if paired.equal:
        return [*lines, f"equal: all {found['count']} elements have the same bits"]
    equal, close = found["equal_bits"], found["count"] - paired.not_close
    lines += [
        f"equal {_share(equal, count)}  close {_share(close, count)} (rtol {paired.relative:g}, atol "
        f"{paired.absolute:g})  cosine {number(paired.cosine)}  l2 {number(paired.l2)}",
        f"largest absolute error {number(found['max_absolute'])} at "
        f"{_place(found['max_absolute_index'], a.shape)}, relative {number(found['max_relative'])} at "
        f"{_place(found['max_relative_index'], a.shape)}",
        f"first difference at {_place(found['first_difference'], a.shape)}",
    ]
    odd = found["one_sided"] + found["different_kind"]
    if odd:
        lines.append(f"{odd} elements are NaN or infinite on one side, or of another kind")
    if paired.first:
        lines.append(f"the first of {paired.not_close} elements that are not close:")
        lines += element_table(paired.first, a.shape)
    return lines


def element_table(rows: list[tuple[int, float, float]], shape: tuple[int, ...]) -> list[str]:
    """Elements of two tensors by their numbers in C order."""
    cells = [["element", "reference", "target", "difference"]]
    cells += [[_place(index, shape), number(a), number(b), number(abs(a - b))] for index, a, b in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(4)]
    return ["  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths)) for row in cells]


def _place(index: int | None, shape: tuple[int, ...]) -> str:
    if index is None:
        return "-"
    return shape_text(index_of(index, shape)) if shape else "the value"


def _share(some: int, all_: int) -> str:
    if some in (0, all_):
        return f"{some // all_ * 100}%"
    return f"{min(max(100 * some / all_, 0.0001), 99.9999):.4g}%"
