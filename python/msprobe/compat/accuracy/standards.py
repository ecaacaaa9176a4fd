# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every constant of the standards. All of them are mindstudio-probe's (release 8.1.1), so that verdicts
are the same; those of `msprobe check` stand in replay/limits.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from msprobe.compat.operator_standards import Standard


@dataclass(frozen=True)
class DtypeConstants:
    """What depends on the dtype of the result."""

    small_value: float
    """|b| up to this is small; above it, normal."""
    small_error: dict[Standard, float]
    """Largest absolute error of a small value."""
    relative_error: float
    accumulative: float
    """The one bound of that standard, whose small values go up to 1."""
    accumulative_balance: float
    least_ratio: float
    """Least denominator where two errors are divided."""
    epsilon: float | None
    """Added to |b| in relative errors; None: the machine epsilon of the reference."""
    ulp_min_exponent: int
    ulp_mantissa_bits: int
    ulp_limit: float


# 1e-16 is not 2^-16, which the documentation of mindstudio-probe has: its code says so in three places.
DTYPES = {
    "torch.float16": DtypeConstants(
        small_value=2**-10,
        small_error={Standard.ABSOLUTE_THRESHOLD: 2**-16, Standard.BENCHMARK: 1e-16},
        relative_error=2**-10,
        accumulative=2**-8,
        accumulative_balance=2**-20,
        least_ratio=2**-11,
        epsilon=None,
        ulp_min_exponent=-14,
        ulp_mantissa_bits=10,
        ulp_limit=1,
    ),
    "torch.bfloat16": DtypeConstants(
        small_value=2**-10,
        small_error={Standard.ABSOLUTE_THRESHOLD: 1e-16, Standard.BENCHMARK: 1e-16},
        relative_error=2**-8,
        accumulative=2**-7,
        accumulative_balance=2**-7,
        least_ratio=2**-8,
        epsilon=2**-8,
        ulp_min_exponent=-126,
        ulp_mantissa_bits=7,
        ulp_limit=1,
    ),
    "torch.float32": DtypeConstants(
        small_value=2**-20,
        small_error={Standard.ABSOLUTE_THRESHOLD: 2**-30, Standard.BENCHMARK: 2**-30},
        relative_error=2**-20,
        accumulative=2**-11,
        accumulative_balance=2**-14,
        least_ratio=2**-14,
        epsilon=None,
        ulp_min_exponent=-126,
        ulp_mantissa_bits=23,
        ulp_limit=32,
    ),
}
"""By the dtype of the result. Results of no other dtype are measured by a standard."""

# Of all other dtypes where there has to be a number.
LEAST_RATIO = 2**-14

# ---- the verdict of run_ut (any float)

COSINE = 0.99
ABSOLUTE = 0.001
HUNDREDTH, THOUSANDTH, TEN_THOUSANDTH = 0.01, 0.001, 0.0001
"""A share of more than 1 - x of the relative errors has to be below x."""
ZERO = 2.220446049250313e-16
"""A tensor whose largest magnitude is at most this is all zero for the cosine."""
DROPOUT_ELEMENTS = 100
DROPOUT_SHARE = 0.1

# ---- the verdict of api_precision_compare: of two errors the largest ratio

SMALL_VALUE_RATIO = 2
RMSE_RATIO = 2
MAX_RELATIVE_RATIO = 10
MEAN_RELATIVE_RATIO = 2
BALANCE_RATIO = 2
THOUSANDTH_SHARE = 0.999
ULP_MEAN_FLOAT32 = 64
ULP_SHARE_FLOAT32 = 0.05
ULP_SHARE_HALF = 0.001
ULP_SHARE_RATIO = 1
