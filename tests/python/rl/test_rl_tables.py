# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The tables: golden, against NumPy, and with files that are damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msprobe import InvalidArgument
from msprobe.core import SingleComparator
from msprobe.native import core
from python_calamine import CalamineWorkbook
from rl_records import Save

HEADER = [
    "step", "rank", "micro_step", "id", "shape1", "shape2", "相同元素百分比(%)", "首个不匹配元素索引",
    "最大绝对误差", "最大相对误差", "误差在千分之一内元素占比(%)", "误差在百分之一内元素占比(%)",
]  # fmt: skip


def table(path: Path) -> list[list[Any]]:
    return CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()


@pytest.mark.parametrize("key", ["response", "pair", "named"])
def test_the_sample_is_reproduced(sample: Path, tmp_path: Path, key: str) -> None:
    SingleComparator.compare(sample / "dump_path1", sample / "dump_path2", tmp_path, num_processes=1)
    ours, theirs = table(tmp_path / f"{key}.xlsx"), table(sample / f"output/{key}.xlsx")
    assert ours[0] == theirs[0] == HEADER
    assert len(ours) == len(theirs) > 4
    for own, other in zip(ours[1:], theirs[1:]):
        for a, b in zip(own, other):
            assert a == (pytest.approx(b, rel=1e-14) if isinstance(b, float) else b)


def wanted(a: Any, b: Any) -> dict[str, Any]:
    """As the format says, in the arrays' arithmetic."""
    part = tuple(slice(0, min(s, t)) for s, t in zip(a.shape, b.shape))
    a, b = a[part], b[part]
    error = np.abs(a - b)
    larger = np.maximum(np.abs(a), np.abs(b))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num(error / larger)
    different = np.nonzero((a != b).ravel())[0]
    return {
        "count": a.size,
        "same": int((a == b).sum()),
        "first_mismatch": int(different[0]) if different.size else None,
        "max_absolute": float(error.max()),
        "max_relative": float(relative.max()),
        "within_thousandth": int((error <= 0.001 * larger).sum()),
        "within_hundredth": int((error <= 0.01 * larger).sum()),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize(
    "shapes",
    [
        ((1,), (1,)),
        ((7, 5), (7, 5)),
        ((1000, 37), (1000, 37)),
        ((20, 30), (25, 18)),
        ((4, 5, 6), (3, 5, 6)),
        ((0, 3), (2, 3)),
    ],
)
def test_numbers_are_those_of_numpy(save: Save, tmp_path: Path, dtype: Any, shapes: Any) -> None:
    rng = np.random.default_rng(5)

    def array(shape: Any, noise: float) -> Any:
        x = np.resize(np.random.default_rng(1).normal(size=2000) * 100, shape)
        x = x + noise * rng.choice([0, 0, 0.01, 1, 5], size=shape)
        x[rng.random(shape) < 0.1] = 0
        return x.astype(dtype)

    a, b = array(shapes[0], 0), array(shapes[1], 1)
    left, right = save("a", {"x": a}), save("b", {"x": b})
    (row,) = core.compare_rl_key(left, right, "x").rows
    if min(a.shape[0], b.shape[0]) == 0:
        assert (row.count, row.max_absolute, row.first_mismatch) == (0, 0, None)
        return
    for name, value in wanted(a, b).items():
        found = getattr(row, name)
        assert found == (pytest.approx(value, rel=1e-15) if isinstance(value, float) else value), name


def test_flat_when_the_dimensions_differ(save: Save) -> None:
    x = np.arange(12.0, dtype=np.float32)
    left, right = save("a", {"x": x.reshape(3, 4)}), save("b", {"x": x[:10]})
    (row,) = core.compare_rl_key(left, right, "x").rows
    assert (row.count, row.same, row.compared) == (10, 10, [10])


def test_column_major_arrays_are_read_in_their_order(save: Save, tmp_path: Path) -> None:
    x = np.arange(12.0).reshape(3, 4)
    left = save("a", {"x": x})
    right = save("b", {"x": x})
    path = next(right.rglob("*.npy"))
    np.save(path, np.asfortranarray(x))
    (row,) = core.compare_rl_key(left, right, "x").rows
    assert row.same == 12


def test_wide_integers_are_exact(save: Save) -> None:
    a = np.array([2**62, 2**62 + 1, -(2**63)], dtype=np.int64)
    left, right = save("a", {"x": a}), save("b", {"x": a + np.array([1, 0, 0])})
    (row,) = core.compare_rl_key(left, right, "x").rows
    assert (row.same, row.first_mismatch, row.max_absolute) == (2, 0, 1.0)


def test_tokens_saved_as_float_and_as_integer_are_the_same(save: Save) -> None:
    tokens = np.array([[1, 2], [3, 150000]])
    left, right = save("a", {"responses": tokens}), save("b", {"responses": tokens.astype(np.float32)})
    (row,) = core.compare_rl_key(left, right, "responses").rows
    assert (row.same, row.reference_dtype, row.target_dtype) == (4, "int64", "float32")


@pytest.mark.parametrize(
    ("a", "b", "same", "absolute", "relative"),
    [
        (float("nan"), float("nan"), 1, 0, 0),
        (float("inf"), float("inf"), 1, 0, 0),
        (float("nan"), 1, 0, float("nan"), float("nan")),
        (float("inf"), 1, 0, float("inf"), 1),
        (float("inf"), float("-inf"), 0, float("inf"), 2),
        (3e38, -3e38, 0, 6e38, 2),
        (0.0, -0.0, 1, 0, 0),
    ],
)
def test_what_is_not_finite(
    save: Save, a: float, b: float, same: int, absolute: float, relative: float
) -> None:
    left = save("a", {"x": np.array([1, a, 2], dtype=np.float32)})
    right = save("b", {"x": np.array([1, b, 2], dtype=np.float32)})
    (row,) = core.compare_rl_key(left, right, "x").rows
    assert row.same == 2 + same
    assert row.within_hundredth == 2 + same
    assert row.first_mismatch == (None if same else 1)
    assert row.max_absolute == pytest.approx(absolute, rel=1e-6, nan_ok=True)
    assert row.max_relative == pytest.approx(relative, rel=1e-6, nan_ok=True)


def test_entries_without_numbers_are_kept_apart(save: Save, tmp_path: Path) -> None:
    values = {"d": {"b": torch.zeros(1), "a": torch.ones(2), 10: torch.ones(1), 2: torch.ones(1)}}
    left, right = save("a", values), save("b", values)
    SingleComparator.compare(left, right, tmp_path / "out")
    rows = table(tmp_path / "out/d.xlsx")[1:]
    assert [row[3] for row in rows] == [2, 10, "a", "b"]
    assert [row[4] for row in rows] == ["[1]", "[1]", "[2]", "[1]"]


def test_damaged_files_are_said_and_the_others_compared(
    save: Save, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = [{"x": torch.arange(4.0)} for _ in range(4)]
    left, right = save("a", *values), save("b", *values)
    path = right / "data/x/step{}/rank0/micro_step0/x.npy"
    (Path(str(path).format(0))).write_bytes(b"\x93NUMPY\x01\x00")
    (Path(str(path).format(1))).write_bytes(b"")
    (Path(str(path).format(2))).write_bytes(Path(str(path).format(3)).read_bytes()[:-4])
    result = SingleComparator.compare(left, right, tmp_path / "out")
    assert [row[0] for row in table(tmp_path / "out/x.xlsx")[1:]] == [3]
    assert result.verdict == "incomplete"
    assert [finding.kind for finding in result.findings] == ["unreadable"] * 3
    for step in range(3):
        assert str(path).format(step) in caplog.text


def test_links_and_other_names_are_passed_by(save: Save, tmp_path: Path) -> None:
    left, right = save("a", {"x": torch.ones(1)}), save("b", {"x": torch.ones(1)})
    (left / "data/x/stepx").mkdir()
    (left / "data/x/step9").symlink_to("/")
    (left / "data/x/step0/rank0/micro_step0/link.npy").symlink_to("/etc/passwd")
    (left / "data/x/step0/rank-1").mkdir()
    (left / "data/file").write_text("")
    found = core.compare_rl_key(left, right, "x")
    assert [row.place for row in found.rows] == [(0, 0, 0, "")]
    assert (found.reference_only, found.target_only) == ([], [])


def test_wrong_arguments(save: Save, tmp_path: Path) -> None:
    record = save("a", {"x": torch.ones(1)})
    with pytest.raises(InvalidArgument, match="expected the dump path of SingleSave, with a folder data"):
        SingleComparator.compare(record, tmp_path / "absent", tmp_path / "out")
    with pytest.raises(InvalidArgument, match="num_processes: expected a number of 1 or more, found 0"):
        SingleComparator.compare(record, record, tmp_path / "out", num_processes=0)
    other = save("b", {"y": torch.ones(1)})
    with pytest.raises(InvalidArgument, match="have no key in common: x and y"):
        SingleComparator.compare(record, other, tmp_path / "out")


def test_large_arrays_in_parts_and_any_number_of_threads(save: Save) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(1 << 22) + 12345).astype(np.float32)
    b = a.copy()
    b[(1 << 22) + 7] += 1
    left, right = save("a", {"x": a}), save("b", {"x": b})
    for threads in (1, 3):
        (row,) = core.compare_rl_key(left, right, "x", threads=threads).rows
        assert (row.count, row.same, row.first_mismatch) == (a.size, a.size - 1, (1 << 22) + 7)
