# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""By which of mindstudio-probe's standards an operator is judged."""

from __future__ import annotations

import enum


class Standard(enum.Enum):
    ABSOLUTE_THRESHOLD = "绝对阈值法"
    BINARY = "二进制一致法"
    ULP = "ULP误差比对法"
    THOUSANDTH = "双千指标法"
    ACCUMULATIVE = "累积误差比对法"
    BENCHMARK = "标杆比对法"
    """The value: as api_precision_compare writes it."""


_OPERATORS = {
    Standard.ABSOLUTE_THRESHOLD: (
        "mul mul_ __mul__ __imul__ __rmul__ add add_ __add__ __iadd__ __radd__ div div_ __div__ __idiv__ "
        "divide divide_ leaky_relu leaky_relu_ prelu reciprocal reciprocal_ rsqrt rsqrt_ square square_ sub "
        "sub_ rsub __isub__ __sub__"
    ),
    Standard.BINARY: (
        "abs abs_ absolute absolute_ argmin bitwise_and bitwise_and_ broadcast_to ceil ceil_ equal fill_ "
        "flatten floor floor_ gather greater greater_ greater_equal greater_equal_ histc isfinite isnan less "
        "less_ less_equal less_equal_ logical_and logical_and_ logical_not logical_not_ logical_or "
        "logical_or_ masked_fill masked_fill_ max_pool3d maximum minimum neg neg_ nonzero not_equal "
        "not_equal_ one_hot pad relu reshape round round_ select sign sign_ sort tile topk transpose "
        "transpose_ tril tril_ triu triu_ type_as"
    ),
    Standard.ULP: (
        "__matmul__ addbmm addbmm_ addmm addmm_ baddbmm baddbmm_ bilinear bmm chain_matmul hspmm linear "
        "matmul mm mv smm sspaddmm"
    ),
    Standard.THOUSANDTH: "conv1d conv2d",
    Standard.ACCUMULATIVE: "test_api",
}
_STANDARD_OF = {name: standard for standard, names in _OPERATORS.items() for name in names.split()}


def standard_of(function: str) -> Standard:
    """Of a function by its name in a record: "linear"."""
    return _STANDARD_OF.get(function, Standard.BENCHMARK)
