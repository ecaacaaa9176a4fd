# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where a run leaves the noise of its reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.files.left_out import left_out
from msprobe.files.left_out import sentence as missing_words
from msprobe.files.ranges import which_ranks
from msprobe.native import NothingToCompare, core
from msprobe.trend.rounding import STEPPED, is_rounding_alone, kept_of_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe._core import MonitorSeries
    from msprobe.files.left_out import LeftOut
    from msprobe.trend.record import Record

# Settings have no noise: they diverge where they differ at all.
_EXACT = {"learning_rate", "loss_scale"}
# Shares of elements beyond a threshold, as metrics of any quantity: rounding moves some of them over it.
_COUNTS = {"zeros", "agreement", "dead"}
_ROUNDING = "its gradient is rounding alone, below one unit roundoff of another one's in its module"
# Differs on another machine, and says nothing about what is computed.
_NOT_COMPARED = {"step_seconds"}


@dataclass(frozen=True)
class Parting:
    """The first step at which a series of the target is outside of the band around its reference."""

    step: int
    series: str
    reference: float
    target: float
    band: float  # half its width

    @property
    def bands(self) -> float:
        """How far apart, in half widths of the band."""
        distance = abs(self.target - self.reference)
        return float("inf") if self.band == 0 or distance != distance else distance / self.band


@dataclass(frozen=True)
class Comparison:
    """Two runs over the steps and series that both have."""

    reference: str
    target: str
    partings: tuple[Parting, ...]  # by step, the farthest first
    first_difference: Parting | None  # not the same to the last bit
    steps: int  # that both have, up to where it was looked
    series: int
    only_reference: int  # series that the other one does not have
    only_target: int
    ranks: int = 1
    """Of how many ranks this is the answer."""
    rank: int | None = None
    """The rank that diverges first, of which the other members tell; None: each side has one store."""
    in_ranks: tuple[int, ...] = ()
    """The ranks that diverge at the same step, or, where none does, all."""
    left_out: tuple[LeftOut, ...] = ()
    """What was not compared."""

    @property
    def is_whole(self) -> bool:
        """Nothing that both runs should have was left out."""
        return not any(one.is_difference for one in self.left_out)

    @property
    def sentence(self) -> str:
        missing = [one for one in self.left_out if one.is_difference]
        return self._answer + (f"; not compared: {missing_words(missing)}" if missing else "")

    @property
    def _answer(self) -> str:
        where = f" in {which_ranks(self.in_ranks, self.ranks)}" if self.ranks > 1 else ""
        if self.partings:
            first = self.partings[0]
            of_rank = f" of rank {self.rank}" if self.ranks > 1 and len(self.in_ranks) > 1 else ""
            return (
                f"{self.target} diverges from {self.reference} at step {first.step}{where}: {first.series}"
                f"{of_rank} = {first.target:.6g} (reference: {first.reference:.6g} ± {first.band:.2g})"
            )
        if self.first_difference is None:
            return f"{self.target} is equal to {self.reference} to the last bit{where}"
        return f"{self.target} stays in the noise of {self.reference}{where}"


def compare(reference: Record, target: Record, progress: Callable[[float], bool] | None = None) -> Comparison:
    """Raises NothingToCompare without a common step or series."""
    common = [
        series
        for series in reference.series
        if series.key in target.numbers and series.quantity not in _NOT_COMPARED
    ]
    exact = {series.key for series in common if series.quantity in _EXACT}
    counts = {series.key for series in common if series.metric in _COUNTS}
    kept = kept_of_steps(reference)
    silent: set[str] = set()
    first_difference = None
    while True:
        compared = [one for one in common if not _is_silent(one, silent)]
        keys = [series.key for series in compared]
        pairs = [
            (
                reference.numbers[key],
                target.numbers[key],
                key not in exact,
                key in counts,
                kept.get(key, 0.0),
            )
            for key in keys
        ]
        found, difference, steps = core.monitor_partings(reference.reader, target.reader, pairs, progress)
        if steps == 0:
            raise NothingToCompare(
                f"{reference.path} and {target.path} have no step in common: steps {reference.first} to "
                f"{reference.last} with {len(reference.series)} series, {target.first} to {target.last} with "
                f"{len(target.series)}"
            )
        partings = tuple(Parting(step, keys[pair], *numbers) for pair, step, *numbers in found)
        if first_difference is None and difference is not None:
            first_difference = Parting(difference[1], keys[difference[0]], *difference[2:])
        parted = {
            compared[pair].name: step for pair, step, *_ in found[::-1] if _is_of_parameter(compared[pair])
        }
        more = _rounding_alone(reference, target, parted)
        if not more:
            break
        silent |= more  # so that a parting behind them is seen, and the search goes on behind it

    rank = reference.rank if reference.rank >= 0 else None
    return Comparison(
        reference=reference.name,
        target=target.name,
        partings=partings,
        first_difference=first_difference,
        steps=steps,
        series=len(common),
        only_reference=sum(series.key not in target.numbers for series in reference.series),
        only_target=sum(series.key not in reference.numbers for series in target.series),
        left_out=tuple(
            left_out(_ROUNDING, rank=rank, name=one, is_difference=False) for one in sorted(silent)
        ),
    )


def _is_of_parameter(series: MonitorSeries) -> bool:
    return series.scope == "parameter"


def _is_silent(series: MonitorSeries, silent: set[str]) -> bool:
    """silent: parameters. Those of a layer as a whole have its elements among them: next to nothing of its
    gradient, but for shares of elements.
    """
    if _is_of_parameter(series):
        return series.name in silent
    has_elements = series.quantity in STEPPED or series.metric in _COUNTS
    return has_elements and any(_is_in(name, series) for name in silent)


def _is_in(parameter: str, series: MonitorSeries) -> bool:
    return series.scope == "model" or (series.scope == "layer" and parameter.startswith(f"{series.name}."))


def _rounding_alone(reference: Record, target: Record, parted: dict[str, int]) -> set[str]:
    """parted: step by name."""
    return {name for name, step in parted.items() if is_rounding_alone((reference, target), name, step)}
