# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Values of nodes put into classes from good to bad, and what that means for everything below a module."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

from msprobe.native import InvalidArgument, core
from msprobe.viewer.difference import METRICS
from msprobe.viewer.digest import METRIC_COLUMNS, SERIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from msprobe.viewer.result_file import Config

ROUNDING = core.opaque_limit(0.0)  # machine epsilons; up to here a difference is one of rounding
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
        """Whether a reference node has a value of its own; otherwise it shows that of its counterpart."""
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
        down = config.small_index_is_bad
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
    """The value of a row `n` of one side. A node of the reference shows that of its counterpart, but for
    overflow.
    """
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


def series(connection: sqlite3.Connection, side: int, name: str) -> Any:
    """A column of all nodes of one side as an array; values of which there are none are NaN."""
    import numpy as np

    sql = "SELECT data FROM series WHERE side=? AND name=?"
    row = connection.execute(sql, (side, name)).fetchone()
    if row is not None:
        return np.frombuffer(row[0], SERIES[name])
    (size,) = connection.execute("SELECT count(*) FROM node WHERE side=?", (side,)).fetchone()
    return np.full(size, np.nan if SERIES[name] == "<f8" else -1, SERIES[name])


class Frame:
    """What all colourings of one graph share: where the nodes below a node begin, and the counterparts."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.firsts: list[Any] = [series(connection, side, "first") for side in (0, 1)]
        self.peers: list[Any] = [series(connection, side, "peer") for side in (0, 1)]

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
        self.firsts = frame.firsts[side]
        self._values = values
        matters = compare and scale.by not in ("overflow", "kind")
        alone = (frame.peers[side] < 0) if matters else np.zeros(len(values), bool)
        classes = scale.classes_of(values)
        self.classes = np.where(alone, np.int8(UNMATCHED), classes)
        self._sums = [_sums(classes == number) for number in range(scale.classes)]
        self._unmatched = _sums(alone)

    def classes_at(self, places: list[int]) -> list[int]:
        found: list[int] = self.classes[places].tolist()
        return found

    def values_at(self, places: list[int]) -> list[float | str | None]:
        return [plain(value) for value in self._values[places].tolist()]

    def below(self, places: list[int]) -> list[dict[str, Any]]:
        """Of each node and what is inside: how many there are, in each class and unmatched, the worst value
        and who has it, and the strip, a letter per piece: see _LETTERS.
        """
        import numpy as np

        if not places:
            return []
        after = np.array(places) + 1
        first = self.firsts[places].astype(after.dtype)
        counts = np.stack([sums[after] - sums[first] for sums in self._sums], axis=1).tolist()
        unmatched = (self._unmatched[after] - self._unmatched[first]).tolist()
        strips = self._strips(first, after)
        found = []
        for at, (begin, end, worst) in enumerate(zip(first.tolist(), places, self._worsts(first, after))):
            found.append(
                {
                    "nodes": end - begin + 1,
                    "counts": counts[at],
                    "unmatched": unmatched[at],
                    "worst": None if worst is None else plain(float(self._values[worst])),
                    "worstAt": worst,
                    "strip": strips[at],
                }
            )
        return found

    def below_of(self, places: Any) -> dict[str, Any]:
        """As `below`, of these nodes, in their order: an array."""
        import numpy as np

        part = copy.copy(self)
        part.firsts = np.zeros(len(places), self.firsts.dtype)
        part._values = self._values[places]
        part._sums = [_sums(np.diff(sums)[places]) for sums in self._sums]
        part._unmatched = _sums(np.diff(self._unmatched)[places])
        (found,) = part.below([len(places) - 1])
        if found["worstAt"] is not None:
            found["worstAt"] = int(places[found["worstAt"]])
        return found

    def _worsts(self, first: Any, after: Any) -> list[int | None]:
        """Where the worst value of each range [first, after) stands: the first one of equals."""
        import numpy as np

        # Ranges that begin later come first: then nothing lies between two of them that reduceat would read.
        order = np.argsort(-first, kind="stable")
        edges = np.stack((first[order], after[order]), axis=1).reshape(-1)
        worst_of = np.fmin if self.scale.small_is_bad else np.fmax
        limits = np.empty(len(first))
        limits[order] = worst_of.reduceat(np.append(self._values, np.nan), edges)[::2]
        found: list[int | None] = []
        for begin, end, limit in zip(first.tolist(), after.tolist(), limits.tolist()):
            known = not math.isnan(limit)
            found.append(begin + int((self._values[begin:end] == limit).argmax()) if known else None)
        return found

    def _strips(self, first: Any, after: Any) -> list[str]:
        import numpy as np

        pieces = np.minimum(STRIP, after - first)[:, None]
        steps = np.minimum(np.arange(STRIP + 1), pieces)
        ends = first[:, None] + (after - first)[:, None] * steps // pieces
        letters = np.full((len(first), STRIP), ord(_LETTERS[NO_VALUE]), np.uint8)
        for number in (0, UNMATCHED, *range(1, len(self._sums))):
            sums = self._unmatched if number == UNMATCHED else self._sums[number]
            at = sums[ends]
            letters[at[:, 1:] > at[:, :-1]] = ord(_LETTERS[number])
        return [bytes(row[:size]).decode() for row, size in zip(letters, pieces[:, 0].tolist())]


# In a strip: the class, "u" for unmatched, "-" for no value.
_LETTERS = {NO_VALUE: "-", UNMATCHED: "u", **{number: str(number) for number in range(10)}}


def _sums(marks: Any) -> Any:
    """How many are marked before each place."""
    import numpy as np

    return np.concatenate((np.zeros(1, np.uint32), np.cumsum(marks, dtype=np.uint32)))


def plain(value: float | None) -> float | str | None:
    """JSON has no infinity."""
    if value is None or math.isnan(value):
        return None
    return ("inf" if value > 0 else "-inf") if math.isinf(value) else value
