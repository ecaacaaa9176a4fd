# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters that the loss does not depend on, as biases of keys: two sound runs differ there, and that is no
fault. Where a gradient is more than rounding, it is compared as all others.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from msprobe.native import core
from msprobe.trend.comparison import Comparison, compare
from msprobe.trend.record import Record

STEPS = 40
BIAS = "attention.k.bias"
# Significant bits of the elements of a gradient, and the size of a sum whose terms cancel.
FORMATS = {"float32": (24, 2.0**-25), "bfloat16": (8, 2.0**-9)}


def run(
    folder: Path, seed: int, size: float, bits: int = 24, *, module: str = "attention.k", moved: float = 1.0
) -> Record:
    """size: of the bias's gradient; that of its weight is 1. The seed says where the bias goes."""
    series = [
        core.MonitorSeries(quantity, metric, name, "parameter", 0)
        for name in (f"{module}.weight", BIAS)
        for quantity, metric in (("gradient", "norm"), ("gradient", "abs_max"), ("weight", "norm"))
    ]
    series.append(core.MonitorSeries("weight", "norm", "attention", "layer", 0))
    folder.mkdir(parents=True)
    store = core.MonitorStoreWriter(folder / "monitor.db", info={})
    for one in series:
        store.add_series(one)
    batches, own = random.Random(0), random.Random(seed)
    for step in range(STEPS):
        gradient = 1 + 0.1 * batches.gauss(0, 1)
        of_bias = 5 + (seed or -1) * step * 1e-3
        noise = 1 + 0.3 * own.gauss(0, 1) if size < 1e-2 else moved * (1 + 0.1 * batches.gauss(0, 1))
        values = [gradient, _element(gradient, bits), 5 + step * 1e-3]
        store.append(step, [*values, size * noise, _element(size * noise, bits), of_bias, of_bias])
    assert store.flush() == 0
    return Record(folder, folder.name)


def _element(number: float, bits: int) -> float:
    """Of a tensor with so many significant bits."""
    scale = 2.0**bits
    return round(number / 8 * scale) / scale if number > 1e-2 else float.fromhex("0x1.8p-40")


def compared(tmp_path: Path, sizes: tuple[float, float], **settings: object) -> Comparison:
    ours, theirs = (
        run(tmp_path / str(seed), seed, size, **settings)  # type: ignore[arg-type]
        for seed, size in enumerate(sizes)
    )
    return compare(ours, theirs)


@pytest.mark.parametrize(("bits", "size"), FORMATS.values(), ids=FORMATS)
def test_a_gradient_of_rounding_alone_is_left_out_and_said(tmp_path: Path, bits: int, size: float) -> None:
    found = compared(tmp_path, (size, size), bits=bits)
    assert found.partings == ()
    assert [(one.what, one.is_difference) for one in found.left_out] == [(BIAS, False)]
    assert "rounding alone" in found.left_out[0].reason
    assert found.first_difference is not None
    assert found.is_whole


def test_sums_of_rounded_gradients_are_known_by_the_run_that_does_not_sum(tmp_path: Path) -> None:
    ours, theirs = (run(tmp_path / str(seed), seed, 2.0**-9, bits) for seed, bits in enumerate((8, 24)))
    assert [one.what for one in compare(ours, theirs).left_out] == [BIAS]


@pytest.mark.parametrize(
    "sizes",
    [(0.1, 0.1), (2.0**-25, 0.1), (0.1, 2.0**-25), (2.0**-9, 2.0**-9), (0.0, 0.0)],
    ids=["real", "real in the target", "real in the reference", "rounding of another format", "zero"],
)
def test_all_other_gradients_are_compared(tmp_path: Path, sizes: tuple[float, float]) -> None:
    found = compared(tmp_path, sizes)
    assert f"weight.norm/{BIAS}" in {one.series for one in found.partings}
    assert found.left_out == ()


def test_a_fault_of_a_bias_is_seen_beside_one_that_is_left_out(tmp_path: Path) -> None:
    ours, theirs = run(tmp_path / "a", 0, 0.1), run(tmp_path / "b", 0, 0.1, moved=2.0)
    assert compare(ours, theirs).partings[0].series.endswith(BIAS)


def test_a_parameter_alone_in_its_module_is_compared(tmp_path: Path) -> None:
    found = compared(tmp_path, (2.0**-25, 2.0**-25), module="attention.q")
    assert found.partings


def trained(folder: Path, seed: int, bits: int, faster: float = 1.0) -> Record:
    """A weight of 64 elements that is rounded to so many bits after each step; the steps of two seeds differ
    by a thousandth.
    """
    batches, own = random.Random(0), random.Random(seed)
    elements = [batches.uniform(0.05, 0.19) for _ in range(64)]
    folder.mkdir(parents=True)
    store = core.MonitorStoreWriter(folder / "monitor.db", info={})
    for metric in ("norm", "abs_max"):
        store.add_series(core.MonitorSeries("weight", metric, "q.weight", "parameter", 0))
    for step in range(200):
        moved = [one + faster * batches.gauss(2e-5, 1e-4) * (1 + 1e-3 * own.gauss(0, 1)) for one in elements]
        elements = [_rounded(one, bits) for one in moved]
        store.append(step, [math.hypot(*elements), max(elements)])
    assert store.flush() == 0
    return Record(folder, folder.name)


def _rounded(number: float, bits: int) -> float:
    scale = 2.0 ** (bits - math.frexp(number)[1])
    return round(number * scale) / scale


def test_weights_in_16_bits_may_be_apart_by_the_roundings_of_their_steps(tmp_path: Path) -> None:
    ours, theirs = (trained(tmp_path / str(seed), seed, bits=8) for seed in (1, 2))
    found = compare(ours, theirs)
    assert found.partings == ()
    assert found.first_difference is not None


@pytest.mark.parametrize("bits", [8, 24], ids=["bfloat16", "float32"])
def test_weights_that_are_stepped_farther_part(tmp_path: Path, bits: int) -> None:
    ours, theirs = trained(tmp_path / "a", 1, bits), trained(tmp_path / "b", 2, bits, faster=3.0)
    assert {one.series for one in compare(ours, theirs).partings} >= {"weight.norm/q.weight"}
