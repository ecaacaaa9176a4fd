# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Records with a store for each rank (`scope: rank`): two runs rank by rank, and the ranks of one run beside
each other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from msprobe.files.left_out import LeftOut, left_out, only_in
from msprobe.native import Error, NothingToCompare
from msprobe.trend.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.trend.comparison import Comparison
    from msprobe.trend.record import Record

# The rule of two runs, see docs/monitor.md: so many times what nine in ten stay below, over so many steps.
_BANDS = 2.5
_QUANTILE = 0.9
_WINDOW = 64
_LEAST_HISTORY = 8  # steps before a rank can leave its place
_LEAST_RANKS = 3  # of two nobody can say which one is out
# Numbers are kept with 24 bits: what differs by less than a few roundings is the same.
_ROUNDING = 4 * 2.0**-24


@dataclass(frozen=True)
class Outlier:
    """Where a rank leaves its place among the others of its run for the first time."""

    rank: int
    step: int
    series: str
    value: float
    others: float
    """The median of all ranks."""
    band: float
    """How far ranks move from step to step."""


def compare_all_ranks(
    reference: Record, target: Record, progress: Callable[[float], bool] | None = None
) -> Comparison:
    """compare() of each rank that both have: the answer of the rank that diverges first, and in which others
    it is the same step. Raises NothingToCompare.
    """
    pairs = _pairs(reference, target)
    missing = list(_alone(reference, target))
    if len(pairs) == 1 and not missing:
        alone = compare(*pairs[0], progress)
        return replace(alone, left_out=(*alone.left_out, *_steps_alone(*pairs[0])))
    found: dict[int, Comparison] = {}
    first_error: Error | None = None
    for number, (ours, theirs) in enumerate(pairs):

        def told(share: float, number: int = number) -> bool:
            return progress is None or progress((number + share) / len(pairs))

        try:
            found[ours.rank] = compare(ours, theirs, told)
        except Error as error:
            first_error = first_error or error
            missing.append(left_out(str(error), rank=ours.rank))
        else:
            missing += [*found[ours.rank].left_out, *_steps_alone(ours, theirs)]
    if not found:
        raise first_error or NothingToCompare(f"{reference.path} and {target.path} have no rank in common")
    rank = min(found, key=lambda one: _order(found[one]))
    best = found[rank]
    alike = [one for one, other in found.items() if _step(other) == _step(best)]
    return replace(best, ranks=len(found), rank=rank, in_ranks=tuple(alike), left_out=tuple(missing))


def outliers(record: Record) -> list[Outlier]:
    """The ranks of a record that leave the others, by step; of each the first time. Looked at are the series
    of the whole model, and what a rank is off by all the time, as a stage of a pipeline is, is its place.
    """
    records = record.all_ranks()
    if len(records) < _LEAST_RANKS:
        return []
    found: dict[int, Outlier] = {}
    for key in (series.key for series in record.series if series.scope == "model"):
        if key.startswith("step_seconds"):
            continue
        for one in _outliers_of(key, records):
            if one.rank not in found or one.step < found[one.rank].step:
                found[one.rank] = one
    return sorted(found.values(), key=lambda one: (one.step, one.rank))


def _outliers_of(key: str, records: Sequence[Record]) -> list[Outlier]:
    curves = {one.rank: one.values(key) for one in records}
    curves = {rank: curve for rank, curve in curves.items() if curve}
    if len(curves) < _LEAST_RANKS:
        return []
    places: dict[int, deque[float]] = {rank: deque(maxlen=_WINDOW) for rank in curves}
    spreads: deque[float] = deque(maxlen=_WINDOW)
    out: dict[int, Outlier] = {}
    for step in sorted(set.intersection(*(set(curve) for curve in curves.values()))):
        middle = median(curve[step] for curve in curves.values())
        moves = {}
        for rank, curve in curves.items():
            place = places[rank]
            if len(place) >= _LEAST_HISTORY:
                moves[rank] = abs(curve[step] - middle - sum(place) / len(place))
            place.append(curve[step] - middle)
        band = max(_BANDS * max(spreads, default=0.0), _ROUNDING * abs(middle))
        for rank, move in moves.items():
            if rank not in out and spreads and not move <= band:
                out[rank] = Outlier(rank, step, key, curves[rank][step], middle, band)
        inside = sorted(move for rank, move in moves.items() if rank not in out)
        if inside:
            spreads.append(inside[min(int(_QUANTILE * len(inside)), len(inside) - 1)])
    return list(out.values())


def _pairs(reference: Record, target: Record) -> list[tuple[Record, Record]]:
    ours = {one.rank: one for one in reference.all_ranks()}
    theirs = {one.rank: one for one in target.all_ranks()}
    common = [(ours[rank], theirs[rank]) for rank in sorted(ours.keys() & theirs.keys())]
    # A store of all processes and stores of each: what one has of the whole is compared, as before.
    return common or [(reference, target)]


def _alone(reference: Record, target: Record) -> list[LeftOut]:
    ours, theirs = ({one.rank for one in record.all_ranks()} for record in (reference, target))
    if not ours & theirs:
        return []
    unread = {**reference.unread, **target.unread}
    return [
        *(left_out(reason, rank=rank) for rank, reason in sorted(unread.items())),
        *(only_in("reference", rank=rank) for rank in sorted(ours - theirs - unread.keys())),
        *(only_in("target", rank=rank) for rank in sorted(theirs - ours - unread.keys())),
    ]


def _steps_alone(reference: Record, target: Record) -> list[LeftOut]:
    """Behind the end of the other: told, and no fault, as one of them may still run."""
    rank = reference.rank if reference.rank >= 0 else None
    for side, longer, shorter in (("reference", reference, target), ("target", target, reference)):
        if longer.steps and shorter.steps and longer.last > shorter.last:
            name = f"steps {shorter.last + 1}-{longer.last}"
            return [replace(only_in(side, rank=rank, name=name), is_difference=False)]
    return []


def _step(one: Comparison) -> int | None:
    return one.partings[0].step if one.partings else None


def _order(one: Comparison) -> tuple[float, float]:
    """The earliest first, and of those the farthest; then those that differ at all."""
    if one.partings:
        return one.partings[0].step, -one.partings[0].bands
    return float("inf"), 0.0 if one.first_difference is not None else 1.0
