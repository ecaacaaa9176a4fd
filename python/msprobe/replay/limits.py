# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every number that a result is judged by, with its source. Those of mindstudio-probe's commands stand in
accuracy/standards.py.
"""

from __future__ import annotations

from dataclasses import dataclass

# ---- measure 1: the error against the error of a trusted implementation in the same dtype

RATIO_HALF, RATIO_FULL = 3.0, 2.0
"""So many times the error of the trusted implementation a result may be off: 3 for dtypes of at most 16
bits, 2 for others. torch/_dynamo/utils.py, same(). FlashAttention allows its largest error 2 times that of a
baseline of the same dtype (tests/test_flash_attn.py)."""

RATIOS_TINY = ((10, 10.0), (500, 8.0))
"""Up to so many elements, so many times: one rounding decides there. torch/_dynamo/utils.py, same()."""

# ---- measure 2: an a-priori bound

PROBABILISTIC = 8.0
"""A sum of n terms is off by at most this times sqrt(n) roundings of the accumulator, but for a probability
that does not count. Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci.
Comput. 41 (2019), which has sqrt(n) in place of the n of the worst case, and a factor of about 4 to 8. The
worst case would let an operator pass that rounds its arguments to 10 bits."""

OUTPUT_ROUNDINGS = 2.0
"""Roundings of the result to its dtype: one when it is written, one that another order of operations may
add."""

INNER_ROUNDINGS = 4.0
"""Roundings to the dtype of the arguments between the operations that one function is made of (a formula of
a gradient is several kernels)."""

KERNEL_ROUNDINGS = 64.0
"""Roundings of the accumulator, relative to the largest value of the result, that another kernel for the same
function may do: vendors' tables of transcendental functions go up to 16 ULP (CUDA C++ Programming Guide,
Mathematical Functions), and a function is a few of them."""

OPERANDS_TRUNCATED = 2.0
"""Roundings of the operands, relative to a sum of products: a matrix unit may cut its operands off instead of
rounding them, and each of the two is then too small by half a unit in the mean."""

OPERANDS_ROUNDED = PROBABILISTIC * (2 / 3) ** 0.5
"""The same relative to the square root of the sum of the squared terms. Rounded or cut off, an operand is off
by a number that is spread evenly over one unit, which is 2 / sqrt(12) roundings in the root mean square, and
the two of a term by sqrt(2) times that; the errors of terms are independent."""

# ---- measure 3: units in the last place, the worst and the 99th percentile apart

ULP_99 = 16.0
"""Where no bound can be had: 99 of 100 values are at most so many ULP off. The largest of the single
functions in the CUDA C++ Programming Guide."""


@dataclass(frozen=True)
class Format:
    """Of a floating-point dtype."""

    mantissa_bits: int
    min_exponent: int
    """Of normal numbers."""
    accumulator_bits: int
    """Mantissa of what sums of this dtype are kept in."""

    @property
    def roundoff(self) -> float:
        """Half a unit in the last place of 1."""
        return 2.0 ** -(self.mantissa_bits + 1)

    @property
    def accumulator_roundoff(self) -> float:
        return 2.0 ** -(self.accumulator_bits + 1)


# IEEE 754 for the first three; bfloat16 and fp8 as in msprobe/tensor_view.h. Matrix units and the CPU keep
# sums of 8 and 16 bits in float32.
FORMATS = {
    "float64": Format(52, -1022, 52),
    "float32": Format(23, -126, 23),
    "float16": Format(10, -14, 23),
    "bfloat16": Format(7, -126, 23),
    "float8_e4m3fn": Format(3, -6, 23),
    "float8_e4m3fnuz": Format(3, -7, 23),
    "float8_e5m2": Format(2, -14, 23),
    "float8_e5m2fnuz": Format(2, -15, 23),
    "float8_e8m0fnu": Format(0, -127, 23),
}


def format_named(dtype: str) -> Format:
    """Of "torch.float32" or "float32"; of a complex dtype that of its parts."""
    name = dtype.removeprefix("torch.")
    parts = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}
    return FORMATS[parts.get(name, name)]


def largest_ratio(dtype: str, count: int) -> float:
    """Measure 1."""
    for elements, ratio in RATIOS_TINY:
        if count <= elements:
            return ratio
    return ratio_for(dtype)


def ratio_for(dtype: str) -> float:
    """Measure 1, of tensors of any size."""
    is_half = format_named(dtype).mantissa_bits <= FORMATS["float16"].mantissa_bits
    return RATIO_HALF if is_half else RATIO_FULL
