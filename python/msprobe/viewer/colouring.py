# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Values of nodes put into classes from good to bad, and what that means for everything below a module."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass

from msprobe.native import InvalidArgument
from msprobe.viewer.difference import METRICS
from msprobe.viewer.digest import METRIC_COLUMNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from msprobe.viewer.result_file import Config

ROUNDING = 64.0  # rounding errors; up to here a difference is one of rounding
NO_VALUE, UNMATCHED = -1, -2
STRIP = 24  # a module shows the worst class in each of so many pieces of what is below it

_ULPS = {
    "difference": "worst_ulps",
    "outputs": "output_ulps",
    "inputs": "input_ulps",
    "weights": "weight_ulps",
    "gradients": "gradient_ulps",
}
# Ends of the classes; the last one is open. With small values bad they go down.
_BOUNDS = {
    **dict.fromkeys(_ULPS, (0.0, ROUNDING, 1e4, 1e6)),
    "overflow": (0.0, 1.0, 2.0),
    "Cosine": (0.99999, 0.999, 0.99, 0.9),
    "One Thousandth Err Ratio": (0.999, 0.99, 0.9, 0.6),
    "Five Thousandths Err Ratio": (0.999, 0.99, 0.9, 0.6),
    **dict.fromkeys(
        ("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"), (1e-5, 1e-3, 1e-2, 0.1)
    ),
}
_OTHER_BOUNDS = (0.0, 1e-6, 1e-3, 1.0)


@dataclass(frozen=True)
class Scale:
    """What is coloured and how. `column`: SQL for the value of a row `n` of the digest."""

    by: str
    column: str
    bounds: tuple[float, ...]
    small_is_bad: bool
    intervals: tuple[tuple[float, float], ...] = ()  # instead of bounds: the colours of the file

    @property
    def classes(self) -> int:
        return len(self.intervals) if self.intervals else len(self.bounds) + 1

    def class_of(self, value: float | None) -> int:
        if value is None or math.isnan(value):
            return NO_VALUE
        if self.intervals:
            return _in_intervals(self.intervals, value)
        if self.small_is_bad:
            return sum(value < bound for bound in self.bounds)
        return sum(value > bound for bound in self.bounds)

    def sql_class(self, value: str) -> str:
        """The same as class_of, in SQL."""
        if self.intervals:
            top = max(high for _, high in self.intervals)
            cases = " ".join(
                f"WHEN ({value}) >= {low!r} AND ({value}) {'<=' if high in (low, top) else '<'} {high!r} THEN {i}"
                for i, (low, high) in enumerate(self.intervals)
            )
            return f"(CASE WHEN ({value}) IS NULL THEN -1 {cases} ELSE -1 END)"
        sign = "<" if self.small_is_bad else ">"
        terms = " + ".join(f"(({value}) {sign} {bound!r})" for bound in self.bounds)
        return f"(CASE WHEN ({value}) IS NULL THEN -1 ELSE {terms} END)"


def _in_intervals(intervals: tuple[tuple[float, float], ...], value: float) -> int:
    top = max(high for _, high in intervals)
    for index, (low, high) in enumerate(intervals):
        if low <= value < high or (value == high and high in (low, top)):
            return index
    return NO_VALUE


def scale_of(config: Config, by: str, bounds: list[float] | None = None) -> Scale:
    """`by`: "index", "overflow", a difference, a metric, or "own:NAME". Raises InvalidArgument."""
    ends = tuple(float(bound) for bound in bounds) if bounds else None
    if ends is not None and (len(ends) > 9 or not all(map(math.isfinite, ends))):
        raise InvalidArgument("bounds: expected up to nine finite numbers")
    if by == "index":
        intervals = tuple((low, high) for _, low, high in config.colours)
        down = config.task == "md5" and intervals == ((1.0, 1.0), (0.0, 0.0))
        if ends is None and intervals:
            return Scale(by, "n.value", (), down, intervals)
        return Scale(by, "n.value", tuple(sorted(ends or (0.2, 0.4, 0.6, 0.8))), down)
    if by == "overflow":
        return Scale(by, "n.overflow", _BOUNDS["overflow"], False)
    if by.startswith("own:") and by[4:].isalnum():
        column = f"(SELECT o.value FROM own o WHERE o.data='{by[4:]}' AND o.name=n.name)"
        return Scale(by, column, tuple(sorted(ends or (0.25, 0.5, 0.75))), False)
    column = _ULPS.get(by) or METRIC_COLUMNS.get(by)
    if column is None:
        raise InvalidArgument(f"colour by: expected index, overflow, a difference or a metric, found {by!r}")
    small = METRICS.get(by, False)
    ends = tuple(sorted(ends or _BOUNDS.get(by, _OTHER_BOUNDS), reverse=small))
    return Scale(by, f"n.{column}", ends, small)


def value_sql(scale: Scale, side: int, table: str) -> str:
    """The value of a row `n` of one side. A golden node shows that of its counterpart, but for overflow."""
    if side == 0 or scale.by == "overflow" or scale.by.startswith("own:"):
        return scale.column
    inner = scale.column.replace("n.", "t.")
    return f"(SELECT {inner} FROM {table} t WHERE t.side=0 AND t.pos=n.peer)"


class Colours:
    """The classes of all nodes of one side, and sums of them: what a collapsed module shows costs no search."""

    def __init__(self, connection: sqlite3.Connection, table: str, scale: Scale, side: int, compare: bool):
        self.scale = scale
        value = value_sql(scale, side, table)
        by_overflow = scale.by == "overflow"
        sql = (
            f"SELECT n.parent, {value}, {scale.sql_class(value)}, n.peer IS NULL FROM {table} n "
            "WHERE n.side=? ORDER BY n.pos"
        )
        self.classes = array("b")
        self._sums = [array("I", (0,)) for _ in range(scale.classes)]
        self._unmatched = array("I", (0,))
        keys: array[float] = array("d")
        self._worst: array[int] = array("i")
        self._values: array[float] = array("d")
        best = -math.inf
        inherited: dict[int, tuple[float, int]] = {}
        counts = [0] * scale.classes
        unmatched = 0
        for pos, (parent, found, number, alone) in enumerate(connection.execute(sql, (side,))):
            bad = best if found is None else (-found if scale.small_is_bad else found)
            key, where = inherited.pop(pos, (best, -1))
            if bad > key:
                key, where = bad, pos
            if parent is not None and where >= 0 and key > inherited.get(parent, (best, -1))[0]:
                inherited[parent] = (key, where)
            keys.append(key)
            self._worst.append(where)
            self._values.append(math.nan if found is None else found)
            if number >= 0:
                counts[number] += 1
            lonely = compare and alone and not by_overflow
            unmatched += lonely
            self.classes.append(UNMATCHED if lonely else number)
            for index, count in enumerate(counts):
                self._sums[index].append(count)
            self._unmatched.append(unmatched)

    def below(self, first: int, pos: int) -> dict[str, Any]:
        """Of the nodes from `first` to `pos`: how many in each class and unmatched, the worst value and who
        has it, and the strip.
        """
        counts = [sums[pos + 1] - sums[first] for sums in self._sums]
        worst = self._worst[pos]
        return {
            "counts": counts,
            "unmatched": self._unmatched[pos + 1] - self._unmatched[first],
            "worst": None if worst < 0 else plain(self._values[worst]),
            "worstAt": worst,
            "strip": self._strip(first, pos),
        }

    def _strip(self, first: int, pos: int) -> list[int]:
        size = pos - first + 1
        pieces = min(STRIP, size)
        strip = []
        for piece in range(pieces):
            start, end = first + size * piece // pieces, first + size * (piece + 1) // pieces
            worst = next(
                (i for i in range(len(self._sums) - 1, -1, -1) if self._sums[i][end] > self._sums[i][start]),
                NO_VALUE,
            )
            if worst < 1 and self._unmatched[end] > self._unmatched[start]:
                worst = UNMATCHED
            strip.append(worst)
        return strip


def plain(value: float | None) -> float | str | None:
    """JSON has no infinity."""
    if value is None or math.isnan(value):
        return None
    return ("inf" if value > 0 else "-inf") if math.isinf(value) else value
