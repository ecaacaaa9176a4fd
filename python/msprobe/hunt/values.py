# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Proof by values: what the reference had, was given or computed is put into the target, and what has to be
put in to have it follow is the cause.

All runs of it have the same nodes around the modules in question (transplant.py), and are compared among each
other. A transplant is believed where the target with its own values put in is the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.experiment import kept
from msprobe.experiment.digests import KINDS, first_parting
from msprobe.experiment.narrowing import needed_of
from msprobe.experiment.plan import Change
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.experiment.digests import Parting
    from msprobe.hunt.runs import Runs

STEPS_AFTER = 3
_KEPT = "kept"
_TRANSPLANT = "transplant."
_PUT_IN = ("random generators", "initial weights", "inputs")
_ALSO_PUT_IN = {"feed.optimizer": ("optimizer",), "feed.loss": ("loss",)}

WORDS = {
    "feed.random": "random states",
    "feed.weights": "weights",
    "feed.inputs": "inputs",
    "feed.loss": "gradient of the loss",
    "feed.gradients": "gradients",
    "feed.optimizer": "state and settings of the optimizer",
    "feed.update": "weights that the optimizer leaves",
}


@dataclass(frozen=True)
class Proved:
    """What had to be put in, and what the other way round showed."""

    names: tuple[str, ...]
    steps: tuple[int, int]
    leaves: Parting | None
    """Where the reference leaves itself with the target's values; None: it does not."""
    is_target: bool
    """The reference with the target's values is the target, to the bit."""


def proved_by_values(runs: Runs, candidates: Sequence[str], parting: Parting) -> Proved | None:
    """The least of `candidates`, names of changes, with which the target follows from the step that parts on;
    None: all of them are not enough. Raises OutOfRuns, InvalidArgument.
    """
    return _ByValues(runs, parting).of(list(candidates))


class _ByValues:
    def __init__(self, runs: Runs, parting: Parting) -> None:
        self._runs = runs
        self._first = parting.step
        self._steps = (parting.step, parting.step + STEPS_AFTER)
        self._modules: tuple[str, ...] = ()
        self._kept: list[Path] = []

    def of(self, candidates: list[str]) -> Proved | None:
        candidates = self._keep(candidates)
        found = next(([one] for one in candidates if self._follows([one])), None)
        if found is None and len(candidates) > 1 and self._follows(candidates):
            found = needed_of(candidates, self._follows, least=2)
        if found is None or not self._is_believed(found):
            return None
        reference, target = self._kept
        run = self._with("reference", found, target)
        if run is None:
            return None
        leaves = self._parting(reference, run, found)
        equals = self._parting(target, run, found)
        self._runs.note_parting(
            "reference", self._changes(found, target), leaves, "does not change", "leaves the plain one at"
        )
        return Proved(tuple(found), self._steps, leaves, equals is None)

    def _keep(self, candidates: list[str]) -> list[str]:
        """Both sides keep the values; those of the candidates that can be kept."""
        modules = [one.removeprefix(_TRANSPLANT) for one in candidates if one.startswith(_TRANSPLANT)]
        # The model itself, whose node is behind its results alone: for the gradient of the loss.
        self._modules = (*modules, *([""] if "feed.loss" in candidates else []))
        options = {
            "stop": self._steps[1],
            "keeps": self._steps,
            "keeps_values": tuple(kind for kind in kept.KINDS if f"feed.{kind}" in candidates),
        }
        try:
            self._kept = self._runs.both(_KEPT, keeps_modules=self._modules, **options)
            if not self._modules or first_parting(*self._kept, steps=self._steps, ignores=_PUT_IN):
                return candidates
            why = "equal to the bit where inputs are copied: they are memory that something else changes"
        except InvalidArgument as error:
            if not self._modules:
                raise
            why = str(error)
        refused = [one for one in candidates if one.startswith(_TRANSPLANT)]
        self._runs.note("target", self._changes(refused, None), f"refused: {why}")
        self._modules = ()
        self._kept = self._runs.both(f"{_KEPT}_values", **options)
        return [one for one in candidates if not one.startswith(_TRANSPLANT) and one != "feed.loss"]

    def _follows(self, names: Sequence[str]) -> bool:
        reference = self._kept[0]
        run = self._with("target", names, reference)
        if run is None:
            return False
        parts = self._parting(reference, run, names)
        said = "follows the reference to the bit", "leaves it at"
        self._runs.note_parting("target", self._changes(names, reference), parts, *said)
        return parts is None and self._is_evidence(names, run)

    def _is_evidence(self, names: Sequence[str], run: Path) -> bool:
        """Weights that were put in behind a step are equal there for that alone: a further step has to be."""
        from msprobe.experiment.digests import read_digests

        if "feed.update" not in names:
            return True
        return all(len(lines) > self._first + 1 for lines in read_digests(run).values())

    def _is_believed(self, names: Sequence[str]) -> bool:
        """The target with its own values is the target."""
        if not any(name.startswith(_TRANSPLANT) for name in names):
            return True
        target = self._kept[1]
        run = self._with("target", names, target)
        parts = None if run is None else self._parting(target, run, names)
        if run is not None:
            said = "with its own values is itself", "with its own values differs at"
            self._runs.note_parting("target", self._changes(names, target), parts, *said)
        return run is not None and parts is None

    def _with(self, side: str, names: Sequence[str], values: Path) -> Path | None:
        modules = tuple(one for one in self._modules if f"{_TRANSPLANT}{one}" not in names)
        options = {"stop": self._steps[1], "keeps": self._steps, "keeps_modules": modules}
        return self._runs.tried(side, self._changes(names, values), **options)

    def _changes(self, names: Sequence[str], values: Path | None) -> tuple[Change, ...]:
        return tuple(Change(name, str(values or ""), self._first) for name in names)

    def _parting(self, one: Path, other: Path, names: Sequence[str]) -> Parting | None:
        """What was put in is no evidence: what the step makes of it is."""
        put_in = {kind for name in names for kind in _ALSO_PUT_IN.get(name, ())}
        ignores = tuple(kind for kind in KINDS if kind in put_in or kind in _PUT_IN)
        return first_parting(one, other, ignores=ignores, steps=self._steps)
