# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A-priori bounds of the errors of a result: measure 2 (docs/check.md)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from msprobe.native import Error, core
from msprobe.replay import limits, terms
from msprobe.replay.execution import Inputs, Precision
from msprobe.replay.runs import Run, has_fractions, parts_of_complex, run, true_dtypes

if TYPE_CHECKING:
    import torch

    from msprobe.replay.dump_file import RecordedCall
    from msprobe.tensors.float32_products import Rounding


class Bounds:
    """How large the terms of each result are, found by one more run in float64."""

    def __init__(
        self, call: RecordedCall, inputs: Inputs, truth: Run, rounding: Rounding | None = None
    ) -> None:
        """rounding: what the device does to the operands, before it multiplies them."""
        self._call = call
        self._operands = 0.0 if rounding is None else rounding.roundoff
        self._is_sum = terms.is_sum_of_products(call)
        self._truth = dict(truth.places())
        elements = truth.outputs[0].numel() if truth.outputs else 1
        self._output_elements = max(1, elements)
        self.count = terms.term_count(call, inputs, self._output_elements)
        self._arguments = [format_ for format_ in _formats_of(inputs)]
        self._sizes = self._find(call, inputs)

    @property
    def is_rigorous(self) -> bool:
        """The bound follows from what the function is, and not from how its result follows its arguments."""
        return self._is_sum

    def _find(self, call: RecordedCall, inputs: Inputs) -> dict[str, torch.Tensor]:
        changed = terms.squared(inputs) if self._is_sum else terms.moved(inputs)
        try:
            found = run(call, changed, "cpu", Precision(true_dtypes()))
        except (Error, RuntimeError, TypeError, ValueError):
            return {}
        sizes: dict[str, torch.Tensor] = {}
        for place, tensor in found.places():
            true = self._truth.get(place)
            if true is None or true.shape != tensor.shape or not has_fractions(true):
                continue
            if self._is_sum:
                sizes[place] = parts_of_complex(tensor).abs().sqrt()
            else:
                sizes[place] = (parts_of_complex(tensor) - parts_of_complex(true)).abs() / terms.STEP
        return sizes

    def options(
        self, place: str, true: torch.Tensor, judged: torch.Tensor, largest: float
    ) -> tuple[core.ResultOptions, torch.Tensor | None]:
        """Bound of the error of this output as options of a measurement, and the sizes it needs."""
        own = limits.format_named(str(judged.dtype))
        count = self.count
        is_gradient = place.startswith("gradient")
        if is_gradient:
            count = terms.term_count_of_gradient(count, self._output_elements, max(1, true.numel()))
        accumulator = own.accumulator_roundoff
        if self._is_sum and terms.rounds_between(self._call, gradient=is_gradient):
            accumulator = own.roundoff
        roundings = limits.PROBABILISTIC * math.sqrt(count) * accumulator
        output = limits.OUTPUT_ROUNDINGS * own.roundoff
        size = self._sizes.get(place)
        options = options_for(str(judged.dtype))
        if size is None:
            return options, None
        if self._is_sum:
            # Partial sums are as large as the result and twice the square root of the sum of squares.
            options.bound_value = output + roundings + limits.OPERANDS_TRUNCATED * self._operands
            options.bound_terms = 2 * roundings + limits.OPERANDS_ROUNDED * self._operands
            options.bound_constant = 0
            if terms.has_spread_errors(self._call):
                options.bound_constant = 2 * roundings * float(size.max()) if size.numel() else 0
        else:
            options.bound_value = output
            options.bound_terms = roundings
            if is_gradient or not terms.is_one_kernel(self._call):
                worst = max([own.roundoff, self._operands, *(f.roundoff for f in self._arguments)])
                options.bound_terms += limits.INNER_ROUNDINGS * worst
            options.bound_constant = limits.KERNEL_ROUNDINGS * own.accumulator_roundoff * largest
        # Below the normal numbers of the dtype the steps are those of the smallest.
        options.bound_constant += 2.0 ** (own.min_exponent - own.mantissa_bits)
        return options, size


def _formats_of(inputs: Inputs) -> list[limits.Format]:
    return [limits.format_named(str(dtype)) for dtype in inputs.dtypes]


@lru_cache(maxsize=64)
def _options_of(dtype: str) -> tuple[int, int]:
    own = limits.format_named(dtype)
    return own.min_exponent, own.mantissa_bits


def options_for(dtype: str) -> core.ResultOptions:
    exponent, bits = _options_of(dtype)
    options = core.ResultOptions()
    options.ulp_min_exponent = options.ulp_zero_exponent = exponent
    options.ulp_mantissa_bits = bits
    options.ulp_limit = limits.ULP_99
    options.relative_error = 2.0**-bits  # of a value next to an infinity
    return options
