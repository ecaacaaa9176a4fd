# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Gradient records of runs of other layouts: signs of shards are put together."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msprobe.grad_probe.comparator import GradComparator

Gradients = dict[str, np.ndarray]
Layout = Callable[[Gradients], list[Gradients]]


def gradients(step: int) -> Gradients:
    generator = np.random.default_rng(step)
    return {name: generator.standard_normal(shape) for name, shape in (("w", (16, 8)), ("b", (16,)))}


def one(found: Gradients) -> list[Gradients]:
    return [found]


def copies(found: Gradients) -> list[Gradients]:
    return [found, found]


def rows(found: Gradients) -> list[Gradients]:
    return [{name: np.split(value, 4)[rank] for name, value in found.items()} for rank in range(4)]


def columns(found: Gradients) -> list[Gradients]:
    return [{"w": part, "b": found["b"]} for part in np.split(found["w"], 2, 1)]


def flat(found: Gradients) -> list[Gradients]:
    return [{"w": found["w"].reshape(-1)[:50], "b": found["b"]}, {"w": found["w"].reshape(-1)[50:]}]


def one_each(found: Gradients) -> list[Gradients]:
    return [{"w": found["w"].reshape(-1)}, {"b": found["b"]}]


def summands(found: Gradients) -> list[Gradients]:
    return [
        {"w": found["w"] - 1, "b": found["b"]},
        {"w": found["w"] + 1, "b": found["b"], "other": found["b"]},
    ]


LAYOUTS: dict[str, Layout] = {
    "one": one,
    "copies": copies,
    "rows": rows,
    "columns": columns,
    "flat": flat,
    "one each": one_each,
}


def record(folder: Path, layout: Layout, spoil: Callable[[int, int, Gradients], None] | None = None) -> Path:
    """spoil: of a step and a rank."""
    for step in range(2):
        for rank, found in enumerate(layout(gradients(step))):
            found = {name: value.copy() for name, value in found.items()}
            if spoil is not None:
                spoil(step, rank, found)
            place = folder / f"rank{rank}" / f"step{step}"
            place.mkdir(parents=True)
            for name, value in found.items():
                np.save(place / f"{name}.npy", value > 0)
            with open(folder / f"rank{rank}" / f"grad_summary_{step}.csv", "w", newline="") as stream:
                writer = csv.writer(stream)
                writer.writerow(("param_name", "max", "min", "norm", "shape"))
                for name, value in found.items():
                    numbers = (value.max(), value.min(), np.linalg.norm(value))
                    writer.writerow((name, *map(float, numbers), list(value.shape)))
    return folder


@pytest.mark.parametrize(
    "pair",
    [
        ("one", "rows"),
        ("one", "columns"),
        ("flat", "one"),
        ("copies", "rows"),
        ("columns", "rows"),
        ("one", "one each"),
        ("one each", "rows"),
    ],
    ids="-".join,
)
def test_healthy_pairs_agree(tmp_path: Path, pair: tuple[str, str]) -> None:
    runs = [record(tmp_path / name, LAYOUTS[name]) for name in pair]
    found = GradComparator.compare_distributed(*runs, tmp_path / "out", pictures=False)
    assert found.same, found.sentence
    assert found.verdict.findings == ()
    similarities = (tmp_path / "out/rank0/similarities.csv").read_text()
    assert "nan" not in similarities
    assert similarities.count("1.0") == 6  # two parameters and their summary, two steps


def test_a_shard_with_other_signs_is_named(tmp_path: Path) -> None:
    def spoil(step: int, rank: int, found: Gradients) -> None:
        if (step, rank) == (1, 2):
            found["w"] *= -1

    runs = record(tmp_path / "a", one), record(tmp_path / "b", rows, spoil)
    found = GradComparator.compare_distributed(*runs, tmp_path / "out", pictures=False)
    assert not found.same
    first = found.verdict.findings[0]
    assert (first.step, first.parameter, first.similarity) == (1, "w", 0.75)


def test_what_is_no_whole_is_said_and_not_compared(tmp_path: Path) -> None:
    runs = record(tmp_path / "a", rows), record(tmp_path / "b", summands)
    verdict = GradComparator.compare_distributed(*runs, tmp_path / "out", pictures=False).verdict
    assert (verdict.verdict, verdict.ranks[0].compared) == ("incomplete", 2)
    assert [(one.step, one.parameter, one.reason.partition(": ")[2]) for one in verdict.findings] == [
        (0, "w", "what its ranks have is no whole of the other run: summands, or another layer"),
        (0, "other", "only run 2 has a parameter of this name"),
    ]


def test_equal_layouts_are_compared_rank_by_rank(tmp_path: Path) -> None:
    runs = record(tmp_path / "a", rows), record(tmp_path / "b", rows)
    found = GradComparator.compare_distributed(*runs, tmp_path / "out", pictures=False)
    assert found.same
    assert not (tmp_path / "out/joined").exists()
    assert (tmp_path / "out/rank3/similarities.csv").exists()


def test_a_damaged_rank_is_no_agreement(tmp_path: Path) -> None:
    runs = record(tmp_path / "a", one), record(tmp_path / "b", rows)
    (runs[1] / "rank2/step0/w.npy").write_bytes(b"\x93NUMPY")
    found = GradComparator.compare_distributed(*runs, tmp_path / "out", pictures=False)
    assert found.verdict.verdict == "incomplete"
    assert not (tmp_path / "out/joined").exists()
