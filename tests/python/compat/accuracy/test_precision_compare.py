# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""api_precision_compare: byte for byte what mindstudio-probe writes, and every rule of its verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from accuracy_support import only, samples, table
from msprobe import FormatError, cli
from msprobe.compat.accuracy.details import DETAILS_HEADER
from msprobe.compat.accuracy.precision_compare import api_precision_compare, compare_details


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples(tmp_path_factory.mktemp("golden"))


def test_the_sample_is_reproduced_byte_for_byte(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npu = only(golden / "run_ut_statistics", "*details*.csv")
    gpu = only(golden / "run_ut_tensor", "*details*.csv")
    words = [
        "-f",
        "pytorch",
        "api_precision_compare",
        "-npu",
        str(npu),
        "-gpu",
        str(gpu),
        "-o",
        str(tmp_path),
    ]
    assert cli.main(words) == 1
    assert "1 of 38 calls are judged errors" in capsys.readouterr().out
    for name in ("result", "details"):
        ours = only(tmp_path, f"api_precision_compare_{name}_*.csv")
        theirs = only(golden / "api_precision_compare", f"api_precision_compare_{name}_*.csv")
        assert ours.read_bytes() == theirs.read_bytes()


def row(name: str, dtype: str = "torch.float32", **cells: Any) -> dict[str, str]:
    found = dict.fromkeys(DETAILS_HEADER, " ")
    found.update({"API Name": name, "DEVICE Dtype": dtype, "Shape": "(3, 4)", "Message": "m"})
    found.update({key: str(cell) for key, cell in cells.items()})
    return found


def compared(name: str, dtype: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Any:
    full = f"{name}.forward.output.0"
    rows, summary = compare_details([row(full, dtype, **ours)], {full: row(full, dtype, **theirs)})
    assert summary.statuses[name][0] == rows[0].status
    return rows[0]


BENCHMARK = ("小值域错误占比", "均方根误差", "相对误差最大值", "相对误差平均值", "误差均衡性")


@pytest.mark.parametrize(
    ("place", "limit", "judged"), [(0, 2, True), (1, 2, True), (2, 10, True), (3, 2, True), (4, 2, False)]
)
def test_benchmark_ratios(place: int, limit: float, judged: bool) -> None:
    good = dict.fromkeys(BENCHMARK, 0.5)
    at = compared("Torch.exp.0", "torch.float32", {**good, BENCHMARK[place]: 0.5 * limit}, good)
    assert at.status == "pass"
    above = compared("Torch.exp.0", "torch.float32", {**good, BENCHMARK[place]: 0.5 * limit * 1.01}, good)
    assert above.status == ("error" if judged else "pass")
    assert (above.cells()[1 + 2 * place + 1]) == "error"  # shown in either case


def test_least_denominators() -> None:
    good = dict.fromkeys(BENCHMARK, 0)
    for dtype, least in (("torch.float16", 2**-11), ("torch.bfloat16", 2**-8), ("torch.float32", 2**-14)):
        found = compared("Torch.exp.0", dtype, {**good, BENCHMARK[1]: least}, good)
        assert found.rmse_ratio == 1


def test_numbers_that_are_not_finite_agree_when_they_are_the_same() -> None:
    good = dict.fromkeys(BENCHMARK, 0.5)
    for ours, theirs, status in (
        ("nan", "nan", "pass"),
        ("inf", "inf", "pass"),
        ("inf", "-inf", "error"),
        ("nan", "inf", "error"),
        ("inf", "0.5", "error"),
    ):
        found = compared(
            "Torch.exp.0", "torch.float32", {**good, BENCHMARK[1]: ours}, {**good, BENCHMARK[1]: theirs}
        )
        assert found.status == status, (ours, theirs)


def test_the_other_standards() -> None:
    absolute = dict.fromkeys(("inf/nan错误率", "相对误差错误率", "绝对误差错误率"), 0)
    assert compared("Torch.add.0", "torch.float32", absolute, absolute).status == "pass"
    for column in absolute:
        assert compared("Torch.add.0", "torch.float32", {**absolute, column: 0.1}, absolute).status == "error"
    assert compared("Functional.relu.0", "torch.float32", {"二进制一致错误率": 0}, {}).status == "pass"
    assert compared("Functional.relu.0", "torch.float32", {"二进制一致错误率": 1e-9}, {}).status == "error"
    assert compared("Torch.gt.0", "torch.bool", {"二进制一致错误率": 0}, {}).algorithm == "二进制一致法"
    assert compared("Functional.conv2d.0", "torch.float16", {"双千指标": 0.999}, {}).status == "pass"
    assert compared("Functional.conv2d.0", "torch.float16", {"双千指标": 0.998}, {}).status == "error"


@pytest.mark.parametrize(
    ("dtype", "mean", "share", "trusted", "status"),
    [
        ("torch.float32", 63, 0.9, 0.0, "pass"),
        ("torch.float32", 65, 0.04, 0.0, "pass"),
        ("torch.float32", 65, 0.5, 0.6, "pass"),
        ("torch.float32", 65, 0.5, 0.5, "error"),
        ("torch.float16", 65, 0.0009, 0.0, "pass"),
        ("torch.bfloat16", 0, 0.5, 0.6, "pass"),
        ("torch.bfloat16", 0, 0.5, 0.5, "error"),
    ],
)
def test_ulp(dtype: str, mean: float, share: float, trusted: float, status: str) -> None:
    columns = ("ULP误差平均值", "ULP误差大于阈值占比")
    ours, theirs = dict(zip(columns, (mean, share))), dict(zip(columns, (mean, trusted)))
    assert compared("Torch.matmul.0", dtype, ours, theirs).status == status


def test_what_is_skipped() -> None:
    for cells in ({"dtype": "torch.float64"}, {"dtype": " "}, {"Shape": "(0,)"}):
        dtype = cells.pop("dtype", "torch.float32")
        assert compared_or_skipped("Torch.exp.0", dtype, cells) == "SKIP"
    assert compared_or_skipped("Torch.exp.0", "torch.float32", {BENCHMARK[0]: "x"}) == "SKIP"
    rows, summary = compare_details([row("Torch.exp.forward.output.0")], {})
    assert (rows[0].status, summary.rows[0][1]) == ("SKIP", "SKIP")
    rows, _ = compare_details([row("Torch.exp.0.forward.output.0")], {})  # the trusted device has none
    assert rows == []


def compared_or_skipped(name: str, dtype: str, cells: dict[str, Any]) -> str:
    full = f"{name}.forward.output.0"
    rows, _ = compare_details([row(full, dtype, **cells)], {full: row(full, dtype)})
    return str(rows[0].status)


def test_files_that_are_no_details(golden: Path, tmp_path: Path) -> None:
    good = only(golden / "run_ut_tensor", "*details*.csv")
    lines = good.read_text("utf-8-sig").split("\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "twice.csv").write_text("\n".join([*lines, *lines[1:]]), "utf-8-sig")
    (tmp_path / "short.csv").write_text(lines[0] + "\nTorch.exp.0.forward.output.0,x\n", "utf-8-sig")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("empty.csv", "other.csv", "twice.csv", "short.csv", "binary.csv"):
        with pytest.raises(FormatError, match=name):
            api_precision_compare(good, tmp_path / name, tmp_path / "out")
        assert not (tmp_path / "out").exists(), name
    assert cli.main(["api_precision_compare", "-npu", str(good), "-gpu", str(tmp_path / "other.csv")]) == 2


def test_the_answer_in_python(golden: Path, tmp_path: Path) -> None:
    details = only(golden / "run_ut_tensor", "*details*.csv")
    result = api_precision_compare(details, details, tmp_path)
    assert result.agrees
    assert result.statuses["Torch.exp.0"] == ("pass", "pass")
    assert len(table(result.results)) == len(result.statuses) + 1
