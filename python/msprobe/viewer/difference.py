# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How far the tensors of two nodes are apart, from the cells of a `.vis.db`."""

from __future__ import annotations

import math

from msprobe.native import core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Cell = dict[str, str]
    Cells = dict[str, Cell]
    Pair = tuple[
        str, str, Cell | None, str, Cell | None
    ]  # group, name and cell of the target, of the reference

GROUPS = ("input", "weight", "gradient", "output")

# What a comparison adds to the cells of a tensor: name -> whether a small value is the bad one.
METRICS: dict[str, bool] = dict(core.cell_metrics())


def number(text: object) -> float | None:
    """Of a cell: "1.5", "13.7%" (0.137), "nan", "inf"; None for what is no number."""
    if isinstance(text, str):
        return core.cell_number(text)
    is_number = isinstance(text, (int, float)) and not isinstance(text, bool)
    return float(text) if is_number else None  # type: ignore[arg-type]


def pairs(
    target: tuple[Cells, Cells], reference: tuple[Cells, Cells] | None, *, gradients: bool
) -> Iterator[Pair]:
    """The tensors of two nodes (inputs and outputs of each), by position inside each group. `gradients`: the
    node holds the gradients of parameters.
    """
    ours = _grouped(target, gradients)
    theirs = _grouped(reference, gradients) if reference is not None else {group: [] for group in GROUPS}
    for group in GROUPS:
        left, right = ours[group], theirs[group]
        for index in range(max(len(left), len(right))):
            name, cell = left[index] if index < len(left) else ("", None)
            peer, other = right[index] if index < len(right) else ("", None)
            yield group, name, cell, peer, other


def _grouped(cells: tuple[Cells, Cells], gradients: bool) -> dict[str, list[tuple[str, Cell]]]:
    groups: dict[str, list[tuple[str, Cell]]] = {group: [] for group in GROUPS}
    for name, cell in cells[0].items():
        group = "gradient" if gradients else "weight" if ".parameters." in name else "input"
        groups[group].append((name, cell))
    groups["output"] = list(cells[1].items())
    return groups


def ulps(target: Cell, reference: Cell | None) -> float | None:
    """How far two tensors are apart, in rounding errors: relative to the size of the tensor, in machine
    epsilons of its dtype. 1 is a rounding error, infinity is a difference without a measure (NaN on one side,
    other integers, another shape, another checksum), None means that there is nothing to compare. Without
    `reference` from what the comparison wrote into `target` alone.
    """
    return core.cell_ulps(target, reference)


def summary_index(target: Cells, reference: Cells) -> float:
    """The precision index of a summary comparison: the largest relative error of the statistics of the
    outputs, at most 1; 1 for a NaN or infinity in the target that the reference has not.
    """
    worst = 0.0
    for cell, other in zip(target.values(), reference.values()):
        for name in ("Max", "Min", "Mean", "Norm"):
            ours, theirs = number(cell.get(name)), number(other.get(name))
            is_extreme = name in ("Max", "Min")
            if ours is not None and is_extreme and not math.isfinite(ours) and ours != theirs:
                return 1.0
            if ours is not None and theirs is not None and theirs != 0 and math.isfinite(ours + theirs):
                worst = max(worst, abs((ours - theirs) / theirs))
    return min(worst, 1.0)
