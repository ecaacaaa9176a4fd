# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Values of nodes put into classes from good to bad, and what that means for everything below a module."""

from __future__ import annotations

import copy
import math
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
# Module, call, communication, collection: for a graph without anything to compare it with.
_KIND = "CASE n.kind WHEN 1 THEN 1 + (n.name LIKE 'Distributed%') WHEN 9 THEN 3 ELSE 0 END"
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
    def is_own(self) -> bool:
        """Whether a golden node has a value of its own; otherwise it shows that of its counterpart."""
        return self.by in ("overflow", "kind") or self.by.startswith("own:")

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

    def classes_of(self, values: Any) -> Any:
        """class_of for an array."""
        import numpy as np

        classes = np.full(len(values), NO_VALUE, np.int8)
        with np.errstate(invalid="ignore"):
            if self.intervals:
                top = max(high for _, high in self.intervals)
                for index in range(len(self.intervals) - 1, -1, -1):
                    low, high = self.intervals[index]
                    inside = (values >= low) & ((values < high) | ((values == high) & (high in (low, top))))
                    classes[inside] = index
                return classes
            known = ~np.isnan(values)
            counted = [(values < end) if self.small_is_bad else (values > end) for end in self.bounds]
            classes[known] = np.asarray(np.sum(counted, axis=0, dtype=np.int8))[known]
        return classes

    def sql_class(self, value: str) -> str:
        """The same as class_of, in SQL."""
        if self.intervals:
            top = max(high for _, high in self.intervals)
            cases = " ".join(
                f"WHEN ({value}) >= {low!r} AND ({value}) {'<=' if high in (low, top) else '<'} "
                f"{high!r} THEN {i}"
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
    """`by`: "index", "overflow", "kind", a difference, a metric, or "own:NAME". Raises InvalidArgument."""
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
    if by == "kind":
        return Scale(by, _KIND, (0.0, 1.0, 2.0), False)
    if by.startswith("own:") and by[4:].isalnum():
        column = f"(SELECT o.value FROM own o WHERE o.data='{by[4:]}' AND o.name=n.name)"
        return Scale(by, column, tuple(sorted(ends or (0.25, 0.5, 0.75))), False)
    field = _ULPS.get(by) or METRIC_COLUMNS.get(by)
    if field is None:
        raise InvalidArgument(f"colour by: expected index, overflow, a difference or a metric, found {by!r}")
    small = METRICS.get(by, False)
    ends = tuple(sorted(ends or _BOUNDS.get(by, _OTHER_BOUNDS), reverse=small))
    return Scale(by, f"n.{field}", ends, small)


def value_sql(scale: Scale, side: int, table: str) -> str:
    """The value of a row `n` of one side. A golden node shows that of its counterpart, but for overflow."""
    if side == 0 or scale.is_own:
        return scale.column
    inner = scale.column.replace("n.", "t.")
    return f"(SELECT {inner} FROM {table} t WHERE t.side=0 AND t.pos=n.peer)"


def class_sql(scale: Scale, side: int, table: str) -> str:
    """The class of a row `n` of one side."""
    if value_sql(scale, side, table) == scale.column:
        return scale.sql_class(scale.column)
    inner = scale.sql_class(scale.column.replace("n.", "t."))
    return f"(SELECT {inner} FROM {table} t WHERE t.side=0 AND t.pos=n.peer)"


class Frame:
    """What all colourings of one graph share: the shape of both trees and the counterparts."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        import numpy as np

        self.parents: list[Any] = []
        self.depths: list[Any] = []
        self.peers: list[Any] = []
        for side in (0, 1):
            sql = "SELECT ifnull(parent, -1), depth, ifnull(peer, -1) FROM node WHERE side=? ORDER BY pos"
            rows = np.array(connection.execute(sql, (side,)).fetchall(), dtype=np.int32).reshape(-1, 3)
            self.parents.append(np.ascontiguousarray(rows[:, 0]))
            self.depths.append(rows[:, 1].astype(np.int16))
            self.peers.append(np.ascontiguousarray(rows[:, 2]))

    def changed(self, changes: list[tuple[int, int, int]]) -> Frame:
        """With other counterparts: (side, node, counterpart or -1)."""
        other = copy.copy(self)
        other.peers = [peers.copy() for peers in self.peers]
        for side, pos, peer in changes:
            other.peers[side][pos] = peer
        return other


class Colours:
    """The classes of all nodes of one side, and sums of them: what a collapsed module shows costs no
    search."""

    def __init__(self, frame: Frame, values: Any, scale: Scale, side: int, compare: bool) -> None:
        """`values`: an array with the value of each node, NaN for none."""
        import numpy as np

        self.scale = scale
        self._values = values
        matters = compare and scale.by not in ("overflow", "kind")
        alone = (frame.peers[side] < 0) if matters else np.zeros(len(values), bool)
        classes = scale.classes_of(values)
        self.classes = np.where(alone, np.int8(UNMATCHED), classes)
        counted = [classes == number for number in range(scale.classes)]
        self._sums = [_sums(one) for one in counted]
        self._unmatched = _sums(alone)
        self._worst = _worst_below(frame.parents[side], frame.depths[side], values, scale.small_is_bad)

    def class_at(self, pos: int) -> int:
        return int(self.classes[pos])

    def below(self, first: int, pos: int) -> dict[str, Any]:
        """Of the nodes from `first` to `pos`: how many in each class and unmatched, the worst value and who
        has it, and the strip.
        """
        counts = [int(sums[pos + 1]) - int(sums[first]) for sums in self._sums]
        worst = int(self._worst[pos])
        return {
            "counts": counts,
            "unmatched": int(self._unmatched[pos + 1]) - int(self._unmatched[first]),
            "worst": None if worst < 0 else plain(float(self._values[worst])),
            "worstAt": worst,
            "strip": self._strip(first, pos),
        }

    def _strip(self, first: int, pos: int) -> list[int]:
        size = pos - first + 1
        pieces = min(STRIP, size)
        ends = [first + size * piece // pieces for piece in range(pieces + 1)]
        strip = [NO_VALUE] * pieces
        for number in (0, UNMATCHED, *range(1, len(self._sums))):
            sums = self._unmatched if number == UNMATCHED else self._sums[number]
            at = sums[ends].tolist()
            for piece in range(pieces):
                if at[piece + 1] > at[piece]:
                    strip[piece] = number
        return strip


def _sums(marks: Any) -> Any:
    """How many are marked before each place."""
    import numpy as np

    return np.concatenate((np.zeros(1, np.uint32), np.cumsum(marks, dtype=np.uint32)))


def _worst_below(parents: Any, depths: Any, values: Any, small_is_bad: bool) -> Any:
    """For each node the place of the worst value in it and below; -1: none has a value. Level by level."""
    import numpy as np

    keys = np.where(np.isnan(values), -np.inf, -values if small_is_bad else values)
    where = np.where(np.isnan(values), -1, np.arange(len(values), dtype=np.int32))
    for depth in range(int(depths.max(initial=0)), 0, -1):
        here = np.flatnonzero((depths == depth) & (where >= 0))
        best = keys.copy()
        np.maximum.at(best, parents[here], keys[here])
        better = here[(keys[here] == best[parents[here]]) & (best[parents[here]] > keys[parents[here]])]
        where[parents[better[::-1]]] = where[better[::-1]]
        lost = here[where[parents[here]] < 0]  # -infinity is a value too
        where[parents[lost]] = where[lost]
        keys = best
    return where


def plain(value: float | None) -> float | str | None:
    """JSON has no infinity."""
    if value is None or math.isnan(value):
        return None
    return ("inf" if value > 0 else "-inf") if math.isinf(value) else value
