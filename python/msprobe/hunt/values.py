# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Proof by values: what the reference had, was given or computed is put into the target, and what has to be
put in to have it follow is the cause.

All runs of it have the same nodes around the modules in question (transplant.py), and are compared among each
other: to the bit, or by the noise of the reference (ruler.py) where it has some. A transplant is believed
where the target with its own values put in is the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from msprobe.experiment import kept
from msprobe.experiment.digests import KINDS, first_parting
from msprobe.experiment.narrowing import needed_of
from msprobe.experiment.plan import Change
from msprobe.experiment.ruler import VALUES, Ruler
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.diagnose.cause import Cause as Suspected
    from msprobe.experiment.digests import Parting
    from msprobe.hunt.candidates import Setting
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
class Put:
    """Values of the other run, named as a change, and what they are put in for."""

    name: str
    parting: Parting
    suspected: Sequence[Suspected]
    """What the diagnosis says of it."""


@dataclass(frozen=True)
class Proved:
    """What had to be put in beside the settings, and what the other way round showed."""

    puts: tuple[Put, ...]
    leaves: Parting | None
    """Where the reference leaves itself with the target's values; None: it does not."""
    is_target: bool
    """The reference with the target's values is the target."""
    words: str
    """How the target follows the reference: "to the bit", "within its noise"."""


class NotRepeated(Exception):
    """Two runs of the reference are not equal to the bit, and its noise is not measured."""


class Suspects(Protocol):
    def __call__(self, parting: Parting, changes: tuple[Change, ...]) -> list[Put]:
        """What can be put in where the target with these changes leaves the reference, the likeliest
        first.
        """


class Repeats(Protocol):
    def __call__(self, run: Path, stop: int) -> bool:
        """Whether the reference is the same to the bit in this run of it, which stops there, or else in a
        plain one.
        """


def proved_by_values(
    runs: Runs,
    puts: Sequence[Put],
    parting: Parting,
    settings: Sequence[Setting],
    suspects: Suspects,
    repeats: Repeats | None,
) -> Proved | None:
    """The least of what can be put in with which the target, with the settings of the reference, follows from
    the step that parts on, beyond the noise nothing; None: there is nothing. Where it follows for longer, the
    search goes on behind it. repeats: None: it is known that the reference does not, and its noise is
    measured. Raises NotRepeated, OutOfRuns, InvalidArgument.
    """
    return _ByValues(runs, parting, settings, suspects, repeats).of(list(puts))


class _ByValues:
    def __init__(
        self,
        runs: Runs,
        parting: Parting,
        settings: Sequence[Setting],
        suspects: Suspects,
        repeats: Repeats | None,
    ) -> None:
        self._runs = runs
        self._at = parting
        self._steps = (parting.step, parting.step + STEPS_AFTER)
        self._settings = settings
        self._suspects = suspects
        self._repeats = repeats
        self._words = "within its noise" if repeats is None else "to the bit"
        self._measured = VALUES if repeats is None else ()
        self._ruler: Ruler | None = None
        self._found: list[Put] = []  # with which the target follows for longer
        self._furthest: tuple[list[Put], Parting] | None = None
        """Of a round: what was put in where the target follows longest, and where it leaves then."""
        self._modules: tuple[str, ...] = ()
        self._kept: list[Path] = []

    def of(self, puts: list[Put]) -> Proved | None:
        found = self._round(puts)
        while found is None:
            further = self._furthest
            if further is None:
                return None
            self._found, self._at = further
            self._steps = (self._steps[0], self._at.step + STEPS_AFTER)
            behind = self._suspects(self._at, self._changes_of_target(self._found))
            known = {one.name for one in self._found}
            puts = [one for one in behind if one.name not in known]
            found = self._round(puts) if puts else None
        if not self._is_believed(found):
            return None
        reference, target = self._kept
        changes = tuple(one.broken() for one in self._settings)
        run = self._with("reference", found, target, changes)
        if run is None:
            return None
        leaves = self._parting(reference, run, found)
        equals = self._parting(target, run, found)
        self._runs.note_parting(
            "reference",
            self._changes(found, target, changes),
            leaves,
            "does not change",
            "leaves the plain one at",
        )
        return Proved(tuple(found), leaves, equals is None, self._words)

    def _round(self, puts: list[Put]) -> list[Put] | None:
        """Those with which the target follows to the end: one of `puts`, or several."""
        self._furthest = None
        puts = self._keep(puts)
        if self._ruler is not None and not self._found:
            alone = self._alone()
            if alone is None:
                return [] if self._settings else None
            self._at = alone
        found = next((some for some in ([*self._found, one] for one in puts) if self._follows(some)), None)
        if found is None and len(puts) > 1 and self._follows([*self._found, *puts]):
            found = [*self._found, *puts]
        if found is None or len(found) == 1:
            return found
        return needed_of(found, self._follows, least=1 if self._found else 2)

    def _alone(self) -> Parting | None:
        """Where the target leaves the reference with nothing put in: what is within the noise is no cause."""
        reference, run = self._kept
        changes = tuple(one.mended() for one in self._settings)
        if changes:
            run = self._with("target", (), reference, changes) or run
        parts = self._parting(reference, run, ())
        self._runs.note_parting("target", changes, parts, *self._said)
        return parts

    def _keep(self, puts: list[Put]) -> list[Put]:
        """Both sides keep the values; those of `puts` that can be kept."""
        candidates = [one.name for one in (*self._found, *puts)]
        modules = [one.removeprefix(_TRANSPLANT) for one in candidates if one.startswith(_TRANSPLANT)]
        # The model itself, whose node is behind its results alone: for the gradient of the loss.
        self._modules = (*modules, *([""] if "feed.loss" in candidates else []))
        number = len(self._found) or ""
        options = {
            "stop": self._steps[1],
            "keeps": self._steps,
            "keeps_values": tuple(
                kind for kind in kept.KINDS if f"feed.{kind}" in candidates or kind in self._measured
            ),
        }
        try:
            self._kept = self._runs.both_keep(
                f"{_KEPT}{number}", self._at.rank, keeps_modules=self._modules, **options
            )
            self._measure(f"{_KEPT}{number}", options)
            puts = self._in_order(puts)
            if not self._modules or first_parting(*self._kept, steps=self._steps, ignores=_PUT_IN):
                return puts
            why = "equal to the bit where inputs are copied: they are memory that something else changes"
        except InvalidArgument as error:
            if not self._modules:
                raise
            why = str(error)
        refused = [one for one in puts if _has_nodes(one)]
        self._runs.note("target", self._changes(refused, None), f"refused: {why}")
        self._modules = tuple({_module_of(one) or "": None for one in self._found if _has_nodes(one)})
        self._kept = self._runs.both(f"{_KEPT}{number}_values", keeps_modules=self._modules, **options)
        self._measure(f"{_KEPT}{number}_values", options)
        return [one for one in puts if not _has_nodes(one)]

    def _measure(self, name: str, options: dict[str, Any]) -> None:
        """The noise of the runs that keep values, before any is put in: it would be proved as a cause."""
        reference = self._kept[0]
        if self._repeats is None:
            again = self._runs.run("reference", f"{name}_again", keeps_modules=self._modules, **options)
            self._ruler = Ruler(reference, again, self._steps)
        elif not self._repeats(reference, self._steps[1]):
            raise NotRepeated

    def _in_order(self, puts: list[Put]) -> list[Put]:
        """A module whose calls make the difference themselves comes first, one that inherited it last."""
        made = {one.module for one in self._runs.made_again if one.makes_difference}
        inherited = {one.module for one in self._runs.made_again if one.is_inherited} - made
        return sorted(puts, key=lambda one: (_module_of(one) in inherited) - (_module_of(one) in made))

    def _follows(self, puts: Sequence[Put]) -> bool:
        reference = self._kept[0]
        changes = tuple(one.mended() for one in self._settings)
        run = self._with("target", puts, reference, changes)
        if run is None:
            return False
        parts = self._parting(reference, run, puts)
        self._runs.note_parting("target", self._changes(puts, reference, changes), parts, *self._said)
        best = self._at if self._furthest is None else self._furthest[1]
        if parts is not None and parts.place > best.place:
            self._furthest = list(puts), parts
        return parts is None and self._is_evidence(puts, run)

    def _is_evidence(self, puts: Sequence[Put], run: Path) -> bool:
        """Weights that were put in behind a step are equal there for that alone: a further step has to be."""
        from msprobe.experiment.digests import read_digests

        if all(one.name != "feed.update" for one in puts):
            return True
        return all(len(lines) > self._at.step + 1 for lines in read_digests(run).values())

    def _is_believed(self, puts: Sequence[Put]) -> bool:
        """The target with its own values is the target."""
        if not any(one.name.startswith(_TRANSPLANT) for one in puts):
            return True
        target = self._kept[1]
        run = self._with("target", puts, target)
        parts = None if run is None else self._parting(target, run, puts)
        if run is not None:
            said = "with its own values is itself", "with its own values differs at"
            self._runs.note_parting("target", self._changes(puts, target), parts, *said)
        return run is not None and parts is None

    @property
    def _said(self) -> tuple[str, str]:
        return f"follows the reference {self._words}", "leaves it at"

    def _with(
        self, side: str, puts: Sequence[Put], values: Path, changes: tuple[Change, ...] = ()
    ) -> Path | None:
        modules = tuple(one for one in self._modules if all(_module_of(put) != one for put in puts))
        options = {"stop": self._steps[1], "keeps": self._steps, "keeps_modules": modules}
        changes = self._changes(puts, values, changes)
        name = "" if puts else f"{_KEPT}_with_settings"  # beside the run that keeps nothing
        return self._runs.tried(side, changes, name=name, keeps_values=self._measured, **options)

    def _changes_of_target(self, puts: Sequence[Put]) -> tuple[Change, ...]:
        return self._changes(puts, self._kept[0], tuple(one.mended() for one in self._settings))

    def _changes(
        self, puts: Sequence[Put], values: Path | None, changes: tuple[Change, ...] = ()
    ) -> tuple[Change, ...]:
        """changes: beside them."""
        return (*changes, *(Change(one.name, str(values or ""), one.parting.step) for one in puts))

    def _parting(self, one: Path, other: Path, puts: Sequence[Put]) -> Parting | None:
        """What was put in is no evidence: what the step makes of it is."""
        put_in = {kind for put in puts for kind in _ALSO_PUT_IN.get(put.name, ())}
        ignores = tuple(kind for kind in KINDS if kind in put_in or kind in _PUT_IN)
        if self._ruler is not None:
            return self._ruler.parting(one, other, ignores)
        return first_parting(one, other, ignores=ignores, steps=self._steps)


def _module_of(put: Put) -> str | None:
    """That is transplanted."""
    return put.name.removeprefix(_TRANSPLANT) if put.name.startswith(_TRANSPLANT) else None


def _has_nodes(put: Put) -> bool:
    """Around modules, of which a run that keeps nothing has none."""
    return put.name == "feed.loss" or _module_of(put) is not None
