# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""api_precision_compare: the errors of a device next to those of a trusted device, from the details that
run_ut wrote on each. Texts in the files are mindstudio-probe's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Union

from msprobe.compat.accuracy import standards
from msprobe.compat.accuracy.details import ERROR, NONE, PASS, SKIP, WARNING, Status
from msprobe.compat.accuracy.result_files import read_table, write_header
from msprobe.compat.operator_standards import Standard, standard_of
from msprobe.files.appending import append_rows
from msprobe.files.atomic_file import make_directory
from msprobe.files.result_time import unused_time
from msprobe.native import FormatError, log

COMPARE_HEADER = [
    "API Name", "小值域错误比值", "小值域判定结果", "均方根误差比值", "均方根误差判定结果",
    "相对误差最大值比值", "相对误差最大值判定结果", "相对误差平均值比值", "相对误差平均值判定结果",
    "误差均衡性比值", "误差均衡性判定结果", "inf/nan错误率", "inf/nan判定结果", "相对误差错误率",
    "相对误差判定结果", "绝对误差错误率", "绝对误差判定结果", "二进制一致错误率",
    "二进制一致错误率判定结果", "ULP误差平均值", "ULP误差大于阈值占比", "ULP误差大于阈值占比比值",
    "ULP误差判定结果", "双千指标", "双千指标判定结果", "比对结果", "比对算法", "Message",
]  # fmt: skip
RESULT_HEADER = ["API Name", "Forward Test Success", "Backward Test Success", "Message"]

_NEEDED = (
    "API Name", "DEVICE Dtype", "小值域错误占比", "均方根误差", "相对误差最大值", "相对误差平均值",
    "误差均衡性", "二进制一致错误率", "inf/nan错误率", "相对误差错误率", "绝对误差错误率",
    "ULP误差平均值", "ULP误差大于阈值占比", "双千指标",
)  # fmt: skip
_NO_STANDARD = ("torch.float64", "torch.complex64", "torch.complex128")
_EMPTY_SHAPE = "(0,)"
_UNSUPPORTED = "This data type does not support benchmark compare."
_HINTS = {
    "topk": "在npu上，topk的入参sorted=False时不生效，会返回有序tensor，而cpu上会返回无序tensor。 "  # noqa: RUF001
    "如果topk精度不达标，请检查是否是该原因导致的。"  # noqa: RUF001
}
_DECIMALS = 14

Cell = Union[float, str]


@dataclass
class ComparedRow:
    """A row of api_precision_compare_details; the fields in the order of the columns."""

    name: str
    small_ratio: Cell = NONE
    small_status: Cell = NONE
    rmse_ratio: Cell = NONE
    rmse_status: Cell = NONE
    max_relative_ratio: Cell = NONE
    max_relative_status: Cell = NONE
    mean_relative_ratio: Cell = NONE
    mean_relative_status: Cell = NONE
    balance_ratio: Cell = NONE
    balance_status: Cell = NONE
    non_finite: Cell = NONE
    non_finite_status: Cell = NONE
    relative: Cell = NONE
    relative_status: Cell = NONE
    absolute: Cell = NONE
    absolute_status: Cell = NONE
    error_rate: Cell = NONE
    error_rate_status: Cell = NONE
    mean_ulp: Cell = NONE
    ulp_share: Cell = NONE
    ulp_share_ratio: Cell = NONE
    ulp_status: Cell = NONE
    thousandth: Cell = NONE
    thousandth_status: Cell = NONE
    status: Status = NONE
    algorithm: str = NONE
    message: str = NONE

    def cells(self, precision: int = _DECIMALS) -> list[str]:
        values = [getattr(self, one.name) for one in fields(self)]
        return [f"{v:.{precision}f}" if isinstance(v, float) else str(v) for v in values]


@dataclass(frozen=True)
class PrecisionCompareResult:
    """What was found, and where it is."""

    results: Path
    details: Path
    statuses: dict[str, tuple[Status, Status]]
    """Forward and backward of each call."""

    @property
    def agrees(self) -> bool:
        """No call is judged an error."""
        return all(ERROR not in pair for pair in self.statuses.values())


def api_precision_compare(
    npu_csv_path: str | os.PathLike[str],
    gpu_csv_path: str | os.PathLike[str],
    out_path: str | os.PathLike[str] = "./",
) -> PrecisionCompareResult:
    """Compares accuracy_checking_details_{time}.csv of the device under test with that of a trusted device,
    and writes api_precision_compare_result_{time}.csv and api_precision_compare_details_{time}.csv.

    Raises IoError; FormatError for files that are no such details, or have a name twice.
    """
    tested = _read(Path(npu_csv_path))
    trusted = _by_name(Path(gpu_csv_path), _read(Path(gpu_csv_path)))
    directory = make_directory(out_path)

    def pair(time: str) -> tuple[Path, Path]:
        names = (f"api_precision_compare_{what}_{time}.csv" for what in ("result", "details"))
        results, details = (directory / name for name in names)
        return results, details

    results, details = pair(unused_time(lambda time: any(path.exists() for path in pair(time))))
    write_header(details, COMPARE_HEADER)
    write_header(results, RESULT_HEADER)
    rows, summary = compare_details(tested, trusted)
    append_rows(details, [row.cells() for row in rows])
    append_rows(results, summary.rows)
    return PrecisionCompareResult(results, details, summary.statuses)


Details = dict[str, str]
"""Column -> cell of one row of the details of run_ut."""


def _read(path: Path) -> list[Details]:
    header, *rows = read_table(path)
    missing = [column for column in _NEEDED if column not in header]
    if missing:
        raise FormatError(
            f"{path}: expected accuracy_checking_details_{{time}}.csv, found no column {', '.join(missing)}"
        )
    for row in rows:
        if len(row) != len(header):
            raise FormatError(f"{path}: {row[0]!r}: expected {len(header)} cells, found {len(row)}")
    return [dict(zip(header, row)) for row in rows]


def _by_name(path: Path, rows: list[Details]) -> dict[str, Details]:
    found: dict[str, Details] = {}
    for row in rows:
        if row["API Name"] in found:
            raise FormatError(f'{path}: "{row["API Name"]}" stands twice, expected once')
        found[row["API Name"]] = row
    return found


@dataclass
class _Call:
    name: str
    function: str
    forward: list[Status] = field(default_factory=list)
    backward: list[Status] = field(default_factory=list)
    is_supported: bool = True
    skip_message: str = ""


@dataclass
class Summary:
    """The rows of api_precision_compare_result."""

    rows: list[list[str]] = field(default_factory=list)
    statuses: dict[str, tuple[Status, Status]] = field(default_factory=dict)

    def add(self, call: _Call) -> None:
        if not call.is_supported:
            self._add(call.name, SKIP, SKIP, _UNSUPPORTED)
            return
        forward, backward = _of_all(call.forward), _of_all(call.backward)
        message = _HINTS.get(call.function, "") if forward == ERROR else ""
        self._add(call.name, forward, backward, message + (call.skip_message if forward == SKIP else ""))

    def _add(self, name: str, forward: Status, backward: Status, message: str) -> None:
        self.rows.append([name, forward, backward, message])
        self.statuses[name] = forward, backward


def compare_details(
    tested: Sequence[Details], trusted: dict[str, Details]
) -> tuple[list[ComparedRow], Summary]:
    """The rows of both files, in the order of `tested`."""
    rows: list[ComparedRow] = []
    summary = Summary()
    call: _Call | None = None
    for tested_row in tested:
        row_name = tested_row["API Name"]
        found = _parts_of(row_name)
        if found is None:
            message = f"The API name {row_name} is invalid."
            rows.append(ComparedRow(row_name, status=SKIP, message=message))
            summary.rows.append([row_name, SKIP, SKIP, message])
            continue
        name, function, direction = found
        trusted_row = trusted.get(row_name)
        if trusted_row is None:
            log.warning("%s is not in the details of the trusted device: it is left out", row_name)
            continue
        row = _compare(function, tested_row, trusted_row)
        rows.append(row)
        if call is None or call.name != name:
            if call is not None:
                summary.add(call)
            call = _Call(name, function)
        _add_to(call, direction, row, tested_row)
    if call is not None:
        summary.add(call)
    return rows, summary


def _add_to(call: _Call, direction: str, row: ComparedRow, tested: Details) -> None:
    if tested["DEVICE Dtype"] in _NO_STANDARD:
        call.is_supported = False
        return
    statuses = call.forward if direction == "forward" else call.backward
    statuses.append(row.status)
    if direction == "forward":
        call.skip_message = tested.get("Message", "") if row.status == SKIP else ""


def _parts_of(row: str) -> tuple[str, str, str] | None:
    """Call, function and direction of "Torch.add.0.forward.output.0"."""
    parts = row.split(".")
    if len(parts) not in (6, 7) or parts[-3] not in ("forward", "backward"):
        return None
    return ".".join(parts[:-3]), ".".join(parts[1:-4]), parts[-3]


def _of_all(statuses: list[Status]) -> Status:
    if not statuses:
        return NONE
    if all(status == SKIP for status in statuses):
        return SKIP
    return next((status for status in (ERROR, WARNING) if status in statuses), PASS)


# ---- one row


def _compare(function: str, tested: Details, trusted: Details) -> ComparedRow:
    row = ComparedRow(tested["API Name"])
    dtype = tested["DEVICE Dtype"]
    if dtype.isspace() or not dtype or dtype in _NO_STANDARD or tested.get("Shape") == _EMPTY_SHAPE:
        row.status, row.message = SKIP, tested.get("Message", "")
        return row
    standard = standard_of(function) if dtype in standards.DTYPES else Standard.BINARY
    try:
        _COMPARE[standard](row, dtype, tested, trusted)
        row.algorithm = standard.value
    except ValueError as error:  # a cell that is no number
        return ComparedRow(row.name, status=SKIP, message=str(error))
    return row


def _number(row: Details, column: str) -> float:
    text = row[column]
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'{row["API Name"]}: "{column}": expected a number, found {text!r}') from None


def _binary(row: ComparedRow, dtype: str, tested: Details, trusted: Details) -> None:
    row.status = row.error_rate_status = PASS if _number(tested, "二进制一致错误率") == 0 else ERROR
    row.error_rate = tested["二进制一致错误率"]
    row.message = "ERROR: 二进制一致错误率超过阈值\n" if row.status == ERROR else ""


def _thousandth(row: ComparedRow, dtype: str, tested: Details, trusted: Details) -> None:
    share = _number(tested, "双千指标")
    row.status = row.thousandth_status = PASS if share >= standards.THOUSANDTH_SHARE else ERROR
    row.thousandth = tested["双千指标"]
    row.message = "ERROR: 双千指标不达标\n" if row.status == ERROR else ""


def _absolute_threshold(row: ComparedRow, dtype: str, tested: Details, trusted: Details) -> None:
    row.non_finite, row.relative, row.absolute = (
        _number(tested, column) for column in ("inf/nan错误率", "相对误差错误率", "绝对误差错误率")
    )
    row.non_finite_status = PASS if row.non_finite == 0 else ERROR
    row.relative_status = PASS if row.relative == 0 else ERROR
    row.absolute_status = PASS if row.absolute == 0 else ERROR
    messages = [
        f"ERROR: {what}超过阈值"
        for what, status in (
            ("inf/nan错误率", row.non_finite_status),
            ("相对误差错误率", row.relative_status),
            ("绝对误差错误率", row.absolute_status),
        )
        if status == ERROR
    ]
    row.status = ERROR if messages else PASS
    row.message = "".join(messages)


def _accumulative(row: ComparedRow, dtype: str, tested: Details, trusted: Details) -> None:
    _absolute_threshold(row, dtype, tested, trusted)
    constants = standards.DTYPES.get(dtype, standards.DTYPES["torch.float32"])
    row.balance_ratio = _number(tested, "误差均衡性")
    row.balance_status = PASS if row.balance_ratio <= constants.accumulative_balance else ERROR
    if row.balance_status == ERROR:
        row.status = ERROR
        row.message += "ERROR: 误差均衡性超过阈值\n"


def _benchmark(row: ComparedRow, dtype: str, tested: Details, trusted: Details) -> None:
    messages: list[str] = []
    statuses: list[Status] = []

    def judge(column: str, limit: float) -> tuple[float, Status]:
        ratio, agrees = _ratio(column, dtype, tested, trusted, messages)
        status: Status = PASS if agrees and not ratio > limit else ERROR
        statuses.append(status)
        return ratio, status

    row.small_ratio, row.small_status = judge("小值域错误占比", standards.SMALL_VALUE_RATIO)
    row.rmse_ratio, row.rmse_status = judge("均方根误差", standards.RMSE_RATIO)
    row.max_relative_ratio, row.max_relative_status = judge("相对误差最大值", standards.MAX_RELATIVE_RATIO)
    row.mean_relative_ratio, row.mean_relative_status = judge("相对误差平均值", standards.MEAN_RELATIVE_RATIO)
    row.balance_ratio, row.balance_status = judge("误差均衡性", standards.BALANCE_RATIO)
    judged = statuses[:4]  # the balance is shown and not judged
    row.status = ERROR if ERROR in judged else PASS
    names = ("小值域错误", "均方根误差", "相对误差最大值", "相对误差平均值")
    messages += [f"ERROR: {name}比值超过阈值\n" for name, status in zip(names, judged) if status == ERROR]
    row.message = "".join(messages)


def _ulp(row: ComparedRow, dtype: str, tested: Details, trusted: Details) -> None:
    messages: list[str] = []
    mean, trusted_mean = _number(tested, "ULP误差平均值"), _number(trusted, "ULP误差平均值")
    mean_agrees = _agree(mean, trusted_mean, "ULP误差平均值", messages)
    share = _number(tested, "ULP误差大于阈值占比")
    ratio, share_agrees = _ratio("ULP误差大于阈值占比", dtype, tested, trusted, messages)
    row.mean_ulp, row.ulp_share, row.ulp_share_ratio = mean, share, ratio
    if dtype == "torch.float32":
        is_good = mean < standards.ULP_MEAN_FLOAT32 or share < standards.ULP_SHARE_FLOAT32
    else:
        is_good = share < standards.ULP_SHARE_HALF
    is_good = is_good or ratio < standards.ULP_SHARE_RATIO
    row.status = row.ulp_status = PASS if is_good and mean_agrees and share_agrees else ERROR
    if row.status == ERROR:
        messages.append("ERROR: ULP误差不满足标准\n")
    row.message = "".join(messages)


def _ratio(
    column: str, dtype: str, tested: Details, trusted: Details, messages: list[str]
) -> tuple[float, bool]:
    """Of two errors, and whether both are finite, or NaN or infinite alike (the ratio is NaN then)."""
    ours, theirs = _number(tested, column), _number(trusted, column)
    if not (math.isfinite(ours) and math.isfinite(theirs)):
        return math.nan, _agree(ours, theirs, column, messages)
    constants = standards.DTYPES.get(dtype)
    least = standards.LEAST_RATIO if constants is None else constants.least_ratio
    return abs(ours) / max(abs(theirs), least), True


def _agree(ours: float, theirs: float, column: str, messages: list[str]) -> bool:
    if math.isfinite(ours) and math.isfinite(theirs):
        return True
    alike = (math.isnan(ours) and math.isnan(theirs)) or ours == theirs
    messages.append(f"{column}同为同号inf或nan\n" if alike else f"{column}inf或nan不一致\n")
    return alike


_COMPARE: dict[Standard, Callable[[ComparedRow, str, Details, Details], None]] = {
    Standard.BINARY: _binary,
    Standard.THOUSANDTH: _thousandth,
    Standard.ABSOLUTE_THRESHOLD: _absolute_threshold,
    Standard.ACCUMULATIVE: _accumulative,
    Standard.BENCHMARK: _benchmark,
    Standard.ULP: _ulp,
}
