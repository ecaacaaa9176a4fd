# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How far the tensors of two nodes are apart, from the cells of a `.vis.db`.

A difference is counted in rounding errors: relative to the size of the tensor, in machine epsilons of its
dtype. 1 is a rounding error, infinity is a difference without a measure (NaN on one side, other integers,
another shape, another checksum), None means that there is nothing to compare. A mean near zero is measured
against a typical element of its tensor, not against itself.
"""

from __future__ import annotations

import math
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Cell = dict[str, str]
    Cells = dict[str, Cell]
    Pair = tuple[str, str, Cell | None, str, Cell | None]  # group, name and cell of the target, of the golden

GROUPS = ("input", "weight", "gradient", "output")

_EPSILON = {
    "float64": 2.0**-52,
    "double": 2.0**-52,
    "float32": 2.0**-23,
    "float": 2.0**-23,
    "float16": 2.0**-10,
    "half": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
_SHOWN = 1.01e-6  # cells hold six decimals, unless they hold an exponent

_STATISTICS = (("Max", "Max diff"), ("Min", "Min diff"), ("Norm", "L2norm diff"), ("Mean", "Mean diff"))

# What a comparison adds to the cells of a tensor: name -> whether a small value is the bad one.
METRICS = {
    "MaxRelativeErr": False,
    "MinRelativeErr": False,
    "MeanRelativeErr": False,
    "NormRelativeErr": False,
    "Max diff": False,
    "Min diff": False,
    "Mean diff": False,
    "L2norm diff": False,
    "Cosine": True,
    "EucDist": False,
    "MaxAbsErr": False,
    "One Thousandth Err Ratio": True,
    "Five Thousandths Err Ratio": True,
}


def number(text: object) -> float | None:
    """Of a cell: "1.5", "13.7%" (0.137), "nan", "inf"; None for what is no number."""
    if not isinstance(text, str):
        return None if text is None or isinstance(text, bool) else float(text)  # type: ignore[arg-type]
    try:
        return float(text)
    except ValueError:
        pass
    words = text.strip()
    try:
        return float(words[:-1]) / 100 if words.endswith("%") else None
    except ValueError:
        return None


def pairs(
    target: tuple[Cells, Cells], golden: tuple[Cells, Cells] | None, *, gradients: bool
) -> Iterator[Pair]:
    """The tensors of two nodes (inputs and outputs of each), by position inside each group. `gradients`: the
    node holds the gradients of parameters.
    """
    ours = _grouped(target, gradients)
    theirs = _grouped(golden, gradients) if golden is not None else {group: [] for group in GROUPS}
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


def ulps(target: Cell, golden: Cell | None) -> float | None:
    """How far two tensors are apart. Without `golden` from what the comparison wrote into `target` alone."""
    if golden is not None:
        if _shape(target) != _shape(golden):
            return math.inf
        if "md5" in target and "md5" in golden and _is_tensor(target):
            if target["md5"] == golden["md5"]:
                return 0.0
            return _from_statistics(target, golden) or math.inf
    elif target.get("Result") == "Different":
        return math.inf
    if not _is_tensor(target):
        return _of_values(target, golden)
    if (distance := number(target.get("MaxAbsErr"))) is not None:
        size = _peak(target)
        if not math.isfinite(distance):
            return math.inf
        return 0.0 if distance == 0 else _in_epsilons(distance, size, target)
    return _from_statistics(target, golden)


def needs_golden(target: Cell) -> bool:
    """Whether `ulps` without the golden cell would leave a doubt."""
    if "MaxAbsErr" in target:
        return number(target["MaxAbsErr"]) is None
    if "Max diff" in target:
        return any(_unusable(target.get(name)) for _, name in _STATISTICS)
    return True


def _unusable(text: str | None) -> bool:
    value = number(text)
    return value is None or not math.isfinite(value)


def _is_tensor(cell: Cell) -> bool:
    return "dtype" in cell and not str(cell["dtype"]).startswith("<")


def _shape(cell: Cell) -> str | None:
    return cell.get("shape")


def _of_values(target: Cell, golden: Cell | None) -> float | None:
    if golden is not None and "value" in target and "value" in golden:
        return 0.0 if target["value"] == golden["value"] else math.inf
    differences = [number(target.get(name)) for _, name in _STATISTICS]
    if all(value is None for value in differences):
        return None
    return 0.0 if not any(differences) else math.inf


def _from_statistics(target: Cell, golden: Cell | None) -> float | None:
    worst: float | None = None
    typical = _typical(target)
    peak = _peak(target)
    for name, difference_name in _STATISTICS:
        ours = number(target.get(name))
        if ours is None:
            continue
        difference = number(target.get(difference_name))
        theirs = number(golden.get(name)) if golden is not None else None
        if difference is None and theirs is None:
            continue
        if not math.isfinite(ours) or (theirs is not None and not math.isfinite(theirs)):
            same = theirs is not None and (ours == theirs or (ours != ours and theirs != theirs))
            value = 0.0 if same else math.inf
        else:
            exact = difference is not None and math.isfinite(difference)
            gap = abs(difference) if exact else abs(ours - theirs) if theirs is not None else 0.0  # type: ignore[arg-type]
            size = {"Norm": abs(ours), "Mean": max(abs(ours), typical)}.get(name, peak)
            value = 0.0 if gap == 0 else _in_epsilons(gap, size, target)
            if not exact and gap <= _SHOWN and "e" not in str(target.get(name)):
                value = min(value, 1.0)
        worst = value if worst is None else max(worst, value)
    return worst


def _in_epsilons(distance: float, size: float, cell: Cell) -> float:
    epsilon = _EPSILON.get(str(cell.get("dtype", "")).rpartition(".")[2].lower())
    if epsilon is None:
        return math.inf  # integers and bools have no rounding
    return distance / size / epsilon if size > 0 else math.inf


def _peak(cell: Cell) -> float:
    ends = [
        abs(v) for name in ("Max", "Min") if (v := number(cell.get(name))) is not None and math.isfinite(v)
    ]
    return max(ends, default=0.0)


def _typical(cell: Cell) -> float:
    """The root mean square of the elements."""
    norm = number(cell.get("Norm"))
    if norm is None or not math.isfinite(norm):
        return 0.0
    count = 1
    for length in re.findall(r"\d+", cell.get("shape") or ""):
        count *= int(length)
    return norm / math.sqrt(count) if count > 0 else 0.0


def summary_index(target: Cells, golden: Cells) -> float:
    """The precision index of a summary comparison: the largest relative error of the statistics of the
    outputs, at most 1; 1 for a NaN or infinity in the target.
    """
    worst = 0.0
    for cell, other in zip(target.values(), golden.values()):
        for name in ("Max", "Min", "Mean", "Norm"):
            ours, theirs = number(cell.get(name)), number(other.get(name))
            if ours is not None and name in ("Max", "Min") and not math.isfinite(ours):
                return 1.0
            if ours is not None and theirs is not None and theirs != 0 and math.isfinite(ours + theirs):
                worst = max(worst, abs((ours - theirs) / theirs))
    return min(worst, 1.0)
