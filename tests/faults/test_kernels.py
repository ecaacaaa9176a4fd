# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The measurement of real kernels: what it computes of two of them, and that its page shows its data."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from msprobe import _core

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "kernels"))

from measure import beyond_of, cells, numbers_of  # noqa: E402
from page import page_of  # noqa: E402
from samples import Input, Sample, samples  # noqa: E402
from worker import computed, conditions, run, tensors_of  # noqa: E402

U = 2.0**-24


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few samples, exact and by two kernels: the real one, and one whose results are too large by 3 u."""
    folder = tmp_path_factory.mktemp("kernels")
    wanted = ("sum", "linear", "exp")
    for name, setting in (("exact", {"exact": True}), ("best", {})):
        run(folder / name, {**setting, "only": wanted})
    (folder / "off").mkdir()
    for path in (folder / "best").glob("*-float32.npz"):
        content = dict(numpy.load(path))
        for key, values in content.items():
            if key.startswith("elements"):
                content[key] = values.astype(numpy.float64) * (1 + 3 * U)
            elif key.startswith("numbers"):
                content[key] = numpy.concatenate([values[:1], values[1:] * (1 + 3 * U)])
        numpy.savez(folder / "off" / path.name, **content)
    return folder


def test_a_factor_is_distance_and_bias(work: Path) -> None:
    found = list(cells(work, ["best", "off"]))
    assert {cell.sample.operator for cell in found} == {"sum", "linear", "exp"}
    for cell in found:
        assert cell.distance == pytest.approx(3, rel=1e-3)
        assert cell.bias == pytest.approx(3 * (1 - 2 / math.sqrt(cell.count)) / cell.condition, abs=0.01)


def test_the_condition_of_a_sum_is_how_much_smaller_it_is_than_its_terms() -> None:
    sample = Sample("sub", "sum", lambda x: x - x.mean(), (Input((40, 500), "positive"),))
    tensors = tensors_of(sample, torch.float32, {"exact": True})
    exact = computed(sample.call, sample, tensors, torch.float32)
    (x,) = tensors
    expected = float(x.norm() / (x - x.mean()).norm())
    assert expected > 2
    assert conditions(sample, tensors, torch.float32, exact)[0] == pytest.approx(expected, rel=0.05)


def test_samples_have_the_classes_of_the_catalogue() -> None:
    wrong = {
        (sample.operator, sample.gain, _core.find_operator(sample.operator).gain)
        for sample in samples()
        if _core.find_operator(sample.operator).gain != sample.gain
    }
    assert wrong == set()


def test_what_is_beyond_the_numbers_is_named(work: Path) -> None:
    found = list(cells(work, ["best", "off"]))
    numbers = {dtype: {"own": 0.5, "sum": 0.0} for dtype in ("float32", "bfloat16", "float16")}
    assert len(beyond_of(found, numbers)) == sum(cell.backward_error > 1.5 for cell in found) > 0


def test_the_page_shows_the_data() -> None:
    data: dict[str, Any] = json.loads((HERE / "kernels/rounding.json").read_text(encoding="utf-8"))
    page = (HERE.parents[1] / "docs/rounding.md").read_text(encoding="utf-8")
    torch = [name.partition(" ")[2] for name in data["kernels"] if name.startswith("torch ")]
    assert page == page_of(data, len(samples()), torch)
    for numbers in data["numbers"].values():  # a quantile is between nothing and the largest
        assert all(0 <= numbers[name] <= numbers[f"{name}_largest"] for name in ("own", "sum", "bias"))


def test_numbers_come_from_the_cells(work: Path) -> None:
    found = [cell for cell in cells(work, ["best", "off"]) if cell.dtype == "float32"]
    assert found
    with pytest.raises(ValueError, match="empty"):  # 16 bits were not measured
        numbers_of(found)
