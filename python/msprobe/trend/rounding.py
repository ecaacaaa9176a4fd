# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters whose gradients are rounding alone, so that two sound runs have nothing in common there.

A loss may not depend on a parameter: on the bias of keys, as a softmax does not, nor on one in front of a
normalisation. Its gradient is then what is left of a sum whose terms cancel. The parameters of a module have
sums over the same terms, so what is below one unit roundoff of another one's gradient is less than the
rounding of a single term of that size. An optimizer as Adam makes full steps of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msprobe.native import core

if TYPE_CHECKING:
    from msprobe.trend.record import Record

_NORM, _LARGEST = "gradient.norm/", "gradient.abs_max/"
# What a store keeps of a number, too, so a gradient in float64 is taken for one of these.
_BITS = {8: "bfloat16", 11: "float16", 24: "float32"}


def is_rounding_alone(record: Record, parameter: str, last: int) -> bool:
    """Of the gradient of a parameter, in all recorded steps up to `last`; False where it is zero in all."""
    module = parameter.rpartition(".")[0]
    others = [
        one.name
        for one in record.series
        if one.key == _NORM + one.name and one.name != parameter and one.name.rpartition(".")[0] == module
    ]
    if _NORM + parameter not in record.numbers or not others:
        return False
    own, *theirs = _values(record, [_NORM + name for name in (parameter, *others)], last)
    most = _roundoff(record, [_LARGEST + name for name in (parameter, *others)], last)
    terms = [max((one for one in of_step if one is not None), default=0.0) for of_step in zip(*theirs)]
    known = [(gradient, size) for gradient, size in zip(own, terms) if gradient is not None]
    return any(gradient for gradient, _ in known) and all(gradient <= most * size for gradient, size in known)


def _values(record: Record, keys: list[str], last: int) -> list[list[float | None]]:
    numbers = [record.numbers[key] for key in keys if key in record.numbers]
    return record.reader.values(numbers, record.first, last)[1]


def _roundoff(record: Record, largest: list[str], last: int) -> float:
    """Of the dtype of gradients, whose largest elements have no more bits than it."""
    found = (value for of_one in _values(record, largest, last) for value in of_one if value is not None)
    bits = max(map(_bits, filter(math.isfinite, found)), default=max(_BITS))
    dtype = next((name for most, name in _BITS.items() if bits <= most), _BITS[max(_BITS)])
    return core.unit_roundoff(dtype)


def _bits(value: float) -> int:
    """From the first to the last one of the significand that is not zero."""
    digits = value.as_integer_ratio()[0]
    return digits.bit_length() - ((digits & -digits).bit_length() - 1) if digits else 0
