# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a comparison of two checkpoints found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from msprobe.result import Result

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from msprobe.result import Cell


@dataclass(frozen=True)
class ParameterRow:
    """One parameter that both checkpoints have. Pairs of a side and the other are (reference, target)."""

    name: str
    shapes: tuple[list[int], list[int]]
    dtypes: tuple[str, str]
    compared: bool
    """False: the shapes differ, or only hashes are known; then all that is measured is nothing."""
    rows: int | None = None
    """Of a vocabulary with padding: how many rows were compared."""
    count: int = 0
    l2: float | None = None
    """Euclidean distance; NaN or infinite where elements are."""
    cos: float | None = None
    """Cosine; None where one side is all zeros."""
    norms: tuple[float, float] = (0.0, 0.0)
    """Euclidean norms, of the elements that are finite on both sides."""
    max_absolute: float | None = None
    max_relative: float | None = None
    """Largest |reference - target| / |target|, over pairs of finite elements."""
    means: tuple[float | None, float | None] = (None, None)
    """Of the elements that are finite on both sides."""
    equal_bits: int | None = None
    nan_counts: tuple[int, int] = (0, 0)
    inf_counts: tuple[int, int] = (0, 0)
    hashes: tuple[str | None, str | None] = (None, None)

    @property
    def counts(self) -> tuple[int, int]:
        return math.prod(self.shapes[0]), math.prod(self.shapes[1])

    @property
    def same_shape(self) -> bool:
        return self.shapes[0] == self.shapes[1]

    @property
    def reshaped(self) -> bool:
        """Whether the shapes differ by more than padding."""
        return not self.same_shape and self.rows is None

    @property
    def relative_distance(self) -> float | None:
        """l2 in units of the larger norm: 0 for equal content; infinite where elements are not finite."""
        if self.l2 is None:
            return None
        if not math.isfinite(self.l2):
            return math.inf
        return self.l2 / max(self.norms) if self.l2 else 0.0

    @property
    def equal(self) -> bool:
        """Whether all that both have has the same bits; of different dtypes: the same values."""
        if self.reshaped:
            return False
        if self.equal_bits is not None:
            return self.equal_bits == self.count
        return None not in self.hashes and self.hashes[0] == self.hashes[1]


def row_of(found: dict[str, Any]) -> ParameterRow:
    """Of what the native comparison says about one pair."""
    shapes = (list(found["shapes"][0]), list(found["shapes"][1]))
    common: dict[str, Any] = {
        "name": found["name"],
        "shapes": shapes,
        "dtypes": tuple(found["dtypes"]),
        "compared": found["comparable"],
        "rows": found["rows"],
    }
    if not found["comparable"]:
        return ParameterRow(**common)
    reference, target = found["reference"], found["target"]
    finite = found["finite_pairs"]
    return ParameterRow(
        **common,
        count=found["count"],
        l2=_distance(found),
        cos=_cosine(found),
        norms=(math.sqrt(reference["squares"]), math.sqrt(target["squares"])),
        max_absolute=found["max_absolute"],
        max_relative=found["max_relative"],
        means=(reference["sum"] / finite, target["sum"] / finite) if finite else (None, None),
        equal_bits=found["equal_bits"],
        nan_counts=(reference["nan_count"], target["nan_count"]),
        inf_counts=(reference["inf_count"], target["inf_count"]),
        hashes=tuple(found["hashes"]),
    )


def _distance(found: dict[str, Any]) -> float:
    """What the arithmetic of floating point gives: the difference of two infinities is no number."""
    if found["reference"]["nan_count"] or found["target"]["nan_count"] or found["both_non_finite"]:
        return math.nan
    return math.inf if found["one_sided"] else math.sqrt(found["squared_distance"])


def _cosine(found: dict[str, Any]) -> float | None:
    if found["finite_pairs"] != found["count"]:
        return math.nan
    reference, target = found["reference"]["squares"], found["target"]["squares"]
    if reference == 0 or target == 0:
        return 1.0 if reference == target else None
    product = reference * target
    norms = math.sqrt(product) if 0 < product < math.inf else math.sqrt(reference) * math.sqrt(target)
    return float(found["dot"] / norms)


@dataclass(frozen=True)
class CheckpointSide:
    """One of the checkpoints."""

    path: str
    kind: str
    """megatron, distributed, safetensors, bin_files, file, or hashes."""
    iteration: int | None
    parallel_sizes: tuple[int, int, int, int]
    """Tensor-, pipeline- and expert-parallel, parts of the model per stage."""
    parameters: int
    bytes: int
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """Names of what is not compared, and why."""
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, repr=False)
class CheckpointResult(Result):
    reference: CheckpointSide
    target: CheckpointSide
    rows: list[ParameterRow]
    """In the order of the model as the reference has it."""
    reference_only: list[str]
    target_only: list[str]
    notes: list[str] = field(default_factory=list)
    row_order: list[str] = field(default_factory=list)
    """The names of all rows, also those that another process measures."""
    seconds: float = 0.0

    @property
    def same(self) -> bool:
        """Whether both have the same parameters with the same content, and all of it was compared."""
        only_one_has = self.reference_only or self.target_only
        return not only_one_has and not self.not_compared and all(row.equal for row in self.rows)

    @property
    def sentence(self) -> str:
        return self.answer(within_limits=False)

    def answer(self, *, within_limits: bool) -> str:
        """Whether the checkpoints differ, in one line. `within_limits`: by no more than the user allows."""
        if self.same:
            return f"The checkpoints are the same: {len(self.rows)} parameters, all bits equal."
        different = len(self.differing)
        missing = len(self.reference_only) + len(self.target_only)
        if not different and not missing:
            return (
                f"The checkpoints are the same as far as they were compared: {len(self.rows)} parameters, "
                f"but {len(self.not_compared)} could not be compared."
            )
        text = f"The checkpoints differ: {different} of {len(self.rows)} parameters"
        if within_limits:
            text = f"The checkpoints are within the limits: {different} of {len(self.rows)} parameters differ"
        return text + (f", {missing} only on one side." if missing else ".")

    def table(self) -> Sequence[dict[str, Cell]]:
        """The parameters, those that differ most first."""
        equal = [row for row in self.rows if row.equal]
        return [
            {
                "parameter": row.name,
                "equal": row.equal,
                "reference_shape": str(row.shapes[0]),
                "target_shape": str(row.shapes[1]),
                "cosine": row.cos,
                "l2": row.l2,
                "relative_l2": row.relative_distance,
                "max_absolute": row.max_absolute,
                "max_relative": row.max_relative,
            }
            for row in [*self.differing, *equal]
        ]

    @property
    def not_compared(self) -> list[tuple[str, str]]:
        """What is left out on either side, and why."""
        return list(dict.fromkeys([*self.reference.left_out, *self.target.left_out]))

    @property
    def differing(self) -> list[ParameterRow]:
        """Rows that differ or have other shapes, the worst first."""
        return sorted((row for row in self.rows if not row.equal), key=_badness, reverse=True)


def _badness(row: ParameterRow) -> float:
    """Shapes that differ, and parameters of which only hashes are known, come first."""
    distance = row.relative_distance
    return math.inf if distance is None else distance
