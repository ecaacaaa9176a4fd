# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The largest relative error of rounding, against what torch says of its dtypes."""

from __future__ import annotations

import pytest
from msprobe.native import core

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    "name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64"]
)
def test_is_half_of_what_torch_calls_eps(name):
    expected = torch.finfo(getattr(torch, name)).eps / 2
    assert core.unit_roundoff(name) == core.unit_roundoff(f"torch.{name}") == expected


@pytest.mark.parametrize("name", ["int64", "bool", "no dtype", ""])
def test_is_zero_for_what_is_not_rounded(name):
    assert core.unit_roundoff(name) == 0
