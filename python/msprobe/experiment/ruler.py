# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Where a run leaves the reference by more than the reference leaves itself: losses, gradients and weights of
steps that both kept, measured by what two runs of the reference are apart there.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.experiment import kept
from msprobe.experiment.digests import KINDS, Parting, first_parting, read_digests
from msprobe.native import core

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VALUES = ("gradients", "update")
"""What every run that is measured keeps (kept.KINDS)."""

_LOSS = ("loss", "loss")
_PREFIXES = {"gradients.": "gradients", "update.weights.": "weights"}
_TIMES = dict((name, value) for name, value, _ in core.verdict_numbers())["suspect"]
"""As everywhere: no normal error is so many times as large as an expected one."""


class Ruler:
    """The noise of the reference."""

    def __init__(self, reference: Path, again: Path, steps: tuple[int, int]) -> None:
        """reference, again: two runs of it, which kept VALUES of the steps (the first, and the one behind the
        last). Of each tensor the noise is the largest of these steps; one of few elements may be equal by
        chance, and is measured by what all of its kind are off by.
        """
        self._reference = reference
        self._steps = range(*steps)
        self._noise: dict[tuple[int, str, str], float] = {}
        runs = _Pair(reference, again)
        for rank in runs.ranks:
            for step in self._steps:
                for kind, name, value in runs.apart(rank, step):
                    place = rank, kind, name
                    self._noise[place] = max(value, self._noise.get(place, 0.0))

    def parting(self, run: Path, other: Path, ignores: Sequence[str]) -> Parting | None:
        """Where the runs leave each other beyond the noise. ignores: kinds (digests.KINDS)."""
        ends = first_parting(run, other, ignores=KINDS, steps=(self._steps.start, self._steps.stop))
        found = [] if ends is None else [ends]
        runs = _Pair(run, other)
        for rank in runs.ranks:
            found += next(([one] for one in self._beyond(runs, rank) if one.kind not in ignores), [])
        return min(found, key=lambda one: one.place, default=None)

    def _beyond(self, runs: _Pair, rank: int) -> Iterator[Parting]:
        for step in self._steps:
            names: dict[str, list[str]] = {"loss": [], "gradients": [], "weights": []}
            for kind, name, value in runs.apart(rank, step):
                expected = max(self._noise.get((rank, kind, one), 0.0) for one in (name, ""))
                if name and value > _TIMES * expected:
                    names[kind].append(name)
            yield from (Parting(step, rank, kind, tuple(some)) for kind, some in names.items() if some)


class _Pair:
    """Two runs whose steps are measured."""

    def __init__(self, *runs: Path) -> None:
        self._runs = runs
        self._lines = [read_digests(run) for run in runs]
        self.ranks = [*self._lines[0]]

    def apart(self, rank: int, step: int) -> Iterator[tuple[str, str, float]]:
        """Kind, name and relative distance of each value of the step; of all of a kind under the name ""."""
        losses = [self._loss_of(lines.get(rank, []), step) for lines in self._lines]
        if None not in losses:
            a, b = (float(loss or "nan") for loss in losses)
            size = max(abs(a), abs(b))
            same = losses[0] == losses[1] or size == 0
            yield (*_LOSS, 0.0 if same else _finite(abs(a - b) / size))
        values = [kept.read(kept.path_of(run, step, rank=rank))[0] for run in self._runs]
        for prefix, kind in _PREFIXES.items():
            mine, theirs = (
                {name.removeprefix(prefix): value for name, value in some.items() if name.startswith(prefix)}
                for some in values
            )
            squares = [0.0, 0.0]
            for name in {**mine, **theirs}:
                if name not in mine or name not in theirs:
                    yield kind, name, math.inf
                    continue
                difference, size = _squares(mine[name], theirs[name])
                squares = [squares[0] + difference, squares[1] + size]
                yield kind, name, _relative(difference, size)
            yield kind, "", _relative(*squares)

    @staticmethod
    def _loss_of(lines: list[dict[str, Any]], step: int) -> str | None:
        return next((line["loss"]["loss"] for line in lines if line["step"] == step and "loss" in line), None)


def _squares(a: Any, b: Any) -> tuple[float, float]:
    """Of the norm of the difference, and of the larger norm."""
    import torch

    if a.shape != b.shape:
        return math.inf, 1.0
    if torch.equal(a, b):
        return 0.0, float(a.to(torch.complex128).norm()) ** 2
    a, b = (one.to(torch.complex128) for one in (a, b))
    return float((a - b).norm()) ** 2, max(float(a.norm()), float(b.norm())) ** 2


def _relative(difference: float, size: float) -> float:
    return 0.0 if difference == 0 else _finite(math.sqrt(difference / size) if size else math.inf)


def _finite(value: float) -> float:
    """NaN, of numbers of which one run alone has it, is beyond everything."""
    return math.inf if math.isnan(value) else value
