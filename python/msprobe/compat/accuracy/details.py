# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""One row of accuracy_checking_details_{time}.csv: a result next to its benchmark, measured by the standard
of its operator and judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Union

from msprobe.compat.accuracy import standards
from msprobe.compat.operator_standards import Standard, standard_of
from msprobe.native import core, torch_adapter

if TYPE_CHECKING:
    import torch

Status = str
"""One of the five below."""
PASS, WARNING, ERROR, SKIP, NONE = ("pass", "Warning", "error", "SKIP", " ")

DETAILS_HEADER = [
    "API Name", "Bench Dtype", "DEVICE Dtype", "Shape", "余弦相似度", "最大绝对误差", "双百指标",
    "双千指标", "双万指标", "二进制一致错误率", "误差均衡性", "均方根误差", "小值域错误占比",
    "相对误差最大值", "相对误差平均值", "inf/nan错误率", "相对误差错误率", "绝对误差错误率",
    "ULP误差最大值", "ULP误差平均值", "ULP误差大于阈值占比", "Status", "Message",
]  # fmt: skip


@dataclass(frozen=True)
class Narrow:
    """A number that mindstudio-probe holds in a narrow type, and writes in as many digits as that needs."""

    value: float
    dtype: Literal["float32", "float16"]

    def __str__(self) -> str:
        import numpy as np

        return str(np.dtype(self.dtype).type(self.value))


Cell = Union[float, int, Narrow, str, None]


@dataclass
class Detail:
    """Fields in the order of the columns; None: a blank."""

    reference_dtype: str | None = None
    device_dtype: str | None = None
    shape: tuple[int, ...] | None = None
    cosine: Cell = None
    max_absolute: Cell = None
    hundredth: Cell = None
    thousandth: Cell = None
    ten_thousandth: Cell = None
    error_rate: Cell = None
    balance: Cell = None
    rmse: Cell = None
    small_errors: Cell = None
    max_relative: Cell = None
    mean_relative: Cell = None
    non_finite_errors: Cell = None
    relative_errors: Cell = None
    absolute_errors: Cell = None
    max_ulp: Cell = None
    mean_ulp: Cell = None
    ulp_errors: Cell = None
    status: Status = SKIP
    message: str = ""

    def cells(self, precision: int = 14) -> list[str]:
        """As the file has them, without the name."""
        return [cell_text(cell, precision) for cell in vars(self).values()]


def cell_text(cell: Any, precision: int) -> str:
    if cell is None:  # most are
        return NONE
    return f"{cell:.{precision}f}" if isinstance(cell, float) else str(cell)


def skipped(message: str) -> Detail:
    return Detail(status=SKIP, message=message)


def worst(statuses: list[Status]) -> Status:
    """Of the outputs of a call. What was skipped counts as passed."""
    for status in (ERROR, WARNING):
        if status in statuses:
            return status
    return PASS


def compare(function: str, reference: Any, device: Any, threads: int = 1) -> Detail:
    """Of one output of `function`: tensors on the CPU, or plain values."""
    import torch

    if reference is None:
        return skipped("Bench output is None, skip this test.")
    if isinstance(reference, torch.Tensor) and isinstance(device, torch.Tensor):
        return _compare_tensors(function, reference, device, threads)
    kinds = Detail(reference_dtype=str(type(reference)), device_dtype=str(type(device)))
    if type(reference) is not type(device):
        kinds.status, kinds.message = ERROR, "the benchmark and the device gave results of different types"
    elif isinstance(reference, (bool, int, float, str)):
        kinds.status = PASS if reference == device else ERROR
        kinds.error_rate = 0 if reference == device else None
    else:
        kinds.status, kinds.message = ERROR, f"a result of type {type(reference).__name__} is not compared"
    return kinds


def _compare_tensors(function: str, reference: torch.Tensor, device: torch.Tensor, threads: int) -> Detail:
    detail = Detail(str(reference.dtype), str(device.dtype), tuple(device.shape))
    if reference.shape != device.shape:
        return _failed(
            detail, f"shapes differ: benchmark {list(reference.shape)}, device {list(device.shape)}"
        )
    if _family(reference) != _family(device):
        return _failed(detail, f"benchmark {reference.dtype} and device {device.dtype} cannot be compared")
    if reference.numel() == 0:
        return _failed(detail, "the benchmark has no elements")
    if reference.is_complex():  # its parts are compared like any other numbers
        import torch

        reference, device = (
            torch.view_as_real(reference.resolve_conj()),
            torch.view_as_real(device.resolve_conj()),
        )
    standard = standard_of(function)
    error = torch_adapter().measure_result(
        device, reference, _options(standard, str(device.dtype), str(reference.dtype)), threads=threads
    )
    if not device.is_floating_point():
        detail.error_rate = error.unequal / error.count
        detail.status = PASS if error.unequal == 0 else ERROR
        detail.message = f"{device.dtype}: judged by the rate of errors alone\n"
        return detail
    _Measures(detail, error, reference.dtype, device.dtype).fill(standard)
    return detail


def _failed(detail: Detail, message: str) -> Detail:
    detail.status, detail.message = ERROR, message
    return detail


def _family(tensor: torch.Tensor) -> str:
    import torch

    if tensor.is_floating_point():
        return "float"
    if tensor.is_complex():
        return "complex"
    return "bool" if tensor.dtype is torch.bool else "int"


@lru_cache(maxsize=256)
def _options(standard: Standard, device: str, reference: str) -> core.ResultOptions:
    options = core.ResultOptions()
    constants = standards.DTYPES.get(device, standards.DTYPES["torch.float32"])
    epsilon = _EPSILONS.get(reference, _EPSILONS["torch.float32"])
    options.epsilon = constants.epsilon if constants.epsilon is not None else epsilon
    options.relative_error = constants.relative_error
    options.small_value = constants.small_value
    options.small_error = constants.small_error.get(standard, constants.small_error[Standard.BENCHMARK])
    if standard is Standard.ACCUMULATIVE:
        options.small_value = 1
        options.small_error = options.relative_error = constants.accumulative
    options.ulp_min_exponent = constants.ulp_min_exponent
    options.ulp_mantissa_bits = constants.ulp_mantissa_bits
    options.ulp_limit = constants.ulp_limit
    options.ulp_zero_exponent = 0
    return options


_EPSILONS = {"torch.float64": 2.0**-52, "torch.float32": 2.0**-23, "torch.float16": 2.0**-10}


class _Measures:
    """Fills a row with what one measurement says."""

    def __init__(
        self, detail: Detail, error: core.ResultError, reference: torch.dtype, device: torch.dtype
    ) -> None:
        self._detail = detail
        self._error = error
        self._device = str(device)
        # mindstudio-probe computes in the wider of both types, bfloat16 being float32.
        kinds = {str(reference), str(device)}
        self._narrow: Literal["float32", "float16"] | None = None
        if "torch.float64" not in kinds:
            self._narrow = "float16" if kinds == {"torch.float16"} else "float32"
        self._bad = error.finite_pairs < error.count

    def fill(self, standard: Standard) -> None:
        detail = self._detail
        if self._device in standards.DTYPES:
            _FILL[standard](self)
        else:
            detail.message += f"{self._device} is measured by no standard\n"
        detail.status = self._verdict()

    # ---- the standards

    def binary(self) -> None:
        self._detail.error_rate = self._error.unequal / self._error.count

    def absolute_threshold(self) -> None:
        e = self._error
        self._detail.non_finite_errors = _ratio(e.non_finite_errors, e.count - e.finite_pairs)
        self._detail.relative_errors = _ratio(e.normal_errors, e.normal)
        self._detail.absolute_errors = _ratio(e.small_errors, e.small)

    def accumulative(self) -> None:
        self.absolute_threshold()
        self._detail.balance = self._balance()

    def benchmark(self) -> None:
        e, detail = self._error, self._detail
        masked = e.count - e.normal
        mean = e.normal_squared_error / e.count
        detail.small_errors = _ratio(e.small_errors, e.small)
        detail.rmse = math.sqrt(mean * (e.count / (e.count - masked + 0.0001) + 0.0001))
        detail.balance = self._balance()
        detail.max_relative = self._number(e.max_relative) if e.normal else 0
        detail.mean_relative = self._number(e.sum_relative / e.normal) if e.normal else 0

    def ulp(self) -> None:
        e, detail = self._error, self._detail
        most, mean = e.max_ulp, e.sum_ulp / e.count
        if self._bad:
            most = mean = math.inf if e.result_nan + e.reference_nan + e.reference_infinite == 0 else math.nan
        narrow = None if self._device == "torch.float32" else "float32"
        detail.max_ulp = Narrow(most, "float32") if narrow else most
        detail.mean_ulp = Narrow(mean, "float32") if narrow else mean
        detail.ulp_errors = e.ulp_errors / e.count

    def thousandth(self) -> None:
        self._detail.thousandth = self._error.below_thousandth / self._error.count

    def _balance(self) -> float:
        return abs(self._error.greater - self._error.less) / self._error.count

    def _number(self, value: float) -> Cell:
        return value if self._narrow is None else Narrow(value, self._narrow)

    # ---- the verdict: one test after the other, until one decides

    def _verdict(self) -> Status:
        decided = self._by_cosine() or self._by_largest_error()
        if decided:
            return decided
        is_half = self._device in ("torch.float16", "torch.bfloat16")
        return self._of_half() if is_half else self._of_full_precision()

    def _by_cosine(self) -> Status | None:
        e, detail = self._error, self._detail
        if e.count == 1:
            self._say("one element has no direction: no cosine")
            return None
        if not self._bad and max(e.max_result, e.max_reference) <= standards.ZERO:
            self._say("both sides are zero: no cosine")
            return None
        if not self._bad and min(e.max_result, e.max_reference) <= standards.ZERO:
            side = "device" if e.max_result <= standards.ZERO else "benchmark"
            self._say(f"the result of the {side} is zero: error")
            return ERROR
        cosine = math.nan
        if not self._bad:
            cosine = e.dot / (math.sqrt(e.result_squares) * math.sqrt(e.reference_squares))
        detail.cosine = max(-1.0, min(1.0, cosine)) if cosine == cosine else cosine
        if not cosine > standards.COSINE:
            self._say(f"cosine not above {standards.COSINE}: error")
            return ERROR
        return None

    def _by_largest_error(self) -> Status | None:
        most = self._error.max_absolute
        if self._bad:
            most = math.nan if self._error.result_nan + self._error.reference_nan else math.inf
        self._detail.max_absolute = self._number(most)
        if most < standards.ABSOLUTE:
            self._say(f"largest absolute error below {standards.ABSOLUTE}: pass")
            return PASS
        return None

    def _of_half(self) -> Status:
        e, detail = self._error, self._detail
        detail.hundredth = e.below_hundredth / e.count
        if not detail.hundredth > 1 - standards.HUNDREDTH:
            self._say(f"too many relative errors of {standards.HUNDREDTH} and more: error")
            return ERROR
        detail.thousandth = e.below_thousandth / e.count
        if detail.thousandth > 1 - standards.THOUSANDTH:
            self._say(f"relative errors below {standards.THOUSANDTH}: pass")
            return PASS
        self._say(f"relative errors of {standards.THOUSANDTH} and more: warning")
        return WARNING

    def _of_full_precision(self) -> Status:
        e, detail = self._error, self._detail
        detail.thousandth = e.below_thousandth / e.count
        detail.ten_thousandth = e.below_ten_thousandth / e.count
        if self._device not in ("torch.float32", "torch.float64"):
            return PASS
        if not detail.thousandth > 1 - standards.THOUSANDTH:
            self._say(f"too many relative errors of {standards.THOUSANDTH} and more: error")
            return ERROR
        if not detail.ten_thousandth > 1 - standards.TEN_THOUSANDTH:
            self._say(f"relative errors of {standards.TEN_THOUSANDTH} and more: warning")
            return WARNING
        self._say(f"relative errors below {standards.TEN_THOUSANDTH}: pass")
        return PASS

    def _say(self, sentence: str) -> None:
        self._detail.message += sentence + "\n"


_FILL = {
    Standard.BINARY: _Measures.binary,
    Standard.ABSOLUTE_THRESHOLD: _Measures.absolute_threshold,
    Standard.ACCUMULATIVE: _Measures.accumulative,
    Standard.BENCHMARK: _Measures.benchmark,
    Standard.ULP: _Measures.ulp,
    Standard.THOUSANDTH: _Measures.thousandth,
}


def _ratio(some: int, all_: int) -> Cell:
    """An integer 0 for the share of nothing, as mindstudio-probe writes it."""
    return some / all_ if all_ else 0


def compare_dropout(reference: torch.Tensor, device: torch.Tensor) -> Status:
    """What dropout keeps is random: only the number of zeros is compared."""
    count = reference.numel()
    if count < standards.DROPOUT_ELEMENTS:
        return PASS
    difference = abs(int((reference == 0).sum()) - int((device == 0).sum()))
    return PASS if difference / count < standards.DROPOUT_SHARE else ERROR
