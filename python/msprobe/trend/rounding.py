# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What rounding does to a series. Weights and moments keep the roundings of all their steps; and there are
parameters whose gradients are rounding alone, so that two sound runs have nothing in common there.

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
    from collections.abc import Sequence

    from msprobe.trend.record import Record

_NORM, _LARGEST = "gradient.norm/", "gradient.abs_max/"
# What an optimizer changes.
STEPPED = ("weight", "moment", "second_moment", "update")
_SAMPLE = 64  # recorded steps that tell of a dtype
# What a store keeps of a number, too, so a gradient in float64 is taken for one of these.
_BITS = {8: "bfloat16", 11: "float16", 24: "float32"}


def is_rounding_alone(records: Sequence[Record], parameter: str, last: int) -> bool:
    """Of the gradient of a parameter, in all records and their steps up to `last`; False where it is zero."""
    module = parameter.rpartition(".")[0]
    names = [
        one.name
        for one in records[0].series
        if one.key == _NORM + one.name and one.name.rpartition(".")[0] == module
    ]
    if any(_NORM + name not in record.numbers for record in records for name in (parameter, *names)):
        return False
    largest = [_values(record, [_LARGEST + name for name in names], last) for record in records]
    # Sums of values that autocast has rounded hide it; those of the other run may be no sums.
    most = max(map(_roundoff, largest))
    others = [name for name in names if name != parameter]
    return bool(others) and all(_is_below(record, parameter, others, last, most) for record in records)


def _is_below(record: Record, parameter: str, others: list[str], last: int, most: float) -> bool:
    """most: of the largest of the others."""
    own, *theirs = _values(record, [_NORM + name for name in (parameter, *others)], last)
    terms = [max((one for one in of_step if one is not None), default=0.0) for of_step in zip(*theirs)]
    known = [(gradient, size) for gradient, size in zip(own, terms) if gradient is not None]
    return any(gradient for gradient, _ in known) and all(gradient <= most * size for gradient, size in known)


def kept_of_steps(record: Record) -> dict[str, float]:
    """By series of a weight or a moment: what the rounding of its elements in one step changes at most, as a
    share of the number.

    An element is off by one unit roundoff u|w| at most, so the largest one by as much of itself. The norm is
    off by u sqrt(sum w^4) / norm, as roundings are independent: u times the largest element at most. A
    kurtosis, of fourth powers, is off by 4 u where one element has most of it. How many elements there are,
    which would tell more, no record has.
    """
    each = (record.last - record.first) // max(record.steps - 1, 1)
    found: dict[str, float] = {}
    for one in record.series:
        if one.quantity not in STEPPED or one.metric != "abs_max":
            continue
        norm, fourth = (f"{one.quantity}.{metric}/{one.name}" for metric in ("norm", "kurtosis"))
        known = _values(record, [one.key, norm], record.first + _SAMPLE * each)
        off = _roundoff(known[:1])
        share = next((min(a / b, 1.0) for a, b in zip(*known) if a and b), 1.0) if known[1:] else 1.0
        found |= {one.key: off, norm: off * share, fourth: 4 * off}
    return found


def _values(record: Record, keys: list[str], last: int) -> list[list[float | None]]:
    """Of the keys that the record has."""
    numbers = [record.numbers[key] for key in keys if key in record.numbers]
    return record.reader.values(numbers, record.first, last)[1]


def _roundoff(largest: list[list[float | None]]) -> float:
    """Of the dtype of tensors, whose largest elements have no more bits than it."""
    found = (value for of_one in largest for value in of_one if value is not None)
    bits = max(map(_bits, filter(math.isfinite, found)), default=max(_BITS))
    dtype = next((name for most, name in _BITS.items() if bits <= most), _BITS[max(_BITS)])
    return core.unit_roundoff(dtype)


def _bits(value: float) -> int:
    """From the first to the last one of the significand that is not zero."""
    digits = value.as_integer_ratio()[0]
    return digits.bit_length() - ((digits & -digits).bit_length() - 1) if digits else 0
