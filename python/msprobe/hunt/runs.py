# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The runs of a hunt: each in its folder, none twice, and no more than were allowed."""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.experiment.launch import run_once
from msprobe.experiment.made_again import read_made_again
from msprobe.experiment.plan import Plan
from msprobe.hunt.answer import Experiment
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.experiment.command_line import Command
    from msprobe.experiment.digests import Parting
    from msprobe.experiment.made_again import MadeAgain
    from msprobe.experiment.plan import Change

SIDES = ("reference", "target", "there")
"""Folders of runs; "there": of the reference in the environment of the target."""


@dataclass(frozen=True)
class Hunt:
    """What is asked."""

    reference: Command
    target: Command
    output: Path
    stop: int | None = None
    limit: float | None = None
    most_runs: int = 20
    said: Callable[[str], None] = lambda _: None
    most_seconds: float | None = None
    """After which no run begins any more."""
    noise: tuple[Path, ...] = ()
    """What `msprobe repeat` or `perturb` left of the reference."""
    reference_there: Command | None = None
    """The reference in the environment of the target, where both the commands and these differ."""


class OutOfRuns(Exception):
    """The budget is spent."""


@dataclass
class Runs:
    """What was run, and what came of it."""

    asked: Hunt
    experiments: list[Experiment] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("reference", "target"), 0))
    made_again: list[MadeAgain] = field(default_factory=list)
    """Calls of modules of the target on what those of the reference were given."""
    _reference: str = "reference"
    _begun: set[Path] = field(default_factory=set)

    begin: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since the hunt was called."""
        return time.monotonic() - self.begin

    @property
    def _most_seconds(self) -> float:
        return math.inf if self.asked.most_seconds is None else self.asked.most_seconds

    def folder(self, side: str, name: str) -> Path:
        return self.asked.output / self._placed(side) / name

    def move_reference(self) -> None:
        """From here on the reference is what it is in the environment of the target."""
        self._reference = "there"

    @property
    def is_moved(self) -> bool:
        return self._reference != "reference"

    def _placed(self, side: str) -> str:
        return self._reference if side == "reference" else side

    def _command_of(self, side: str) -> Command:
        asked = self.asked
        commands = {"target": asked.target, "there": asked.reference_there or asked.reference}
        return commands.get(self._placed(side), asked.reference)

    def run(
        self,
        side: str,
        name: str = "",
        *,
        changes: tuple[Change, ...] = (),
        steps: str = "",
        stop: int | None = None,
        keeps: tuple[int, int] | None = None,
        keeps_values: tuple[str, ...] = (),
        keeps_modules: tuple[str, ...] = (),
        again: Path | None = None,
    ) -> Path:
        """The folder. name: empty: as the changes have it. Raises OutOfRuns, InvalidArgument."""
        if sum(self.counts.values()) >= self.asked.most_runs or self.seconds > self._most_seconds:
            raise OutOfRuns
        folder = self.folder(side, name or name_of(changes))
        plan = Plan(
            str(folder),
            changes,
            stop=stop,
            steps=steps,
            keeps=keeps,
            keeps_values=keeps_values,
            keeps_modules=keeps_modules,
            keeps_given=bool(keeps_modules) and not changes,
            again="" if again is None else str(again),
        )
        words = f" with {' '.join(change.said for change in changes)}" if changes else ""
        placed = "reference, in the environment of the target" if self._placed(side) == "there" else side
        self.asked.said(f"{placed}{words}")
        if folder not in self._begun:
            self.counts["target" if side == "target" else "reference"] += 1  # one that fails is one, too
            self._begun.add(folder)
        run, is_new = run_once(
            self._command_of(side), plan, without=self.asked.output, limit=self.asked.limit
        )
        if not is_new:
            self.asked.said(f"{placed}{words}: was there already")
        return run.folder

    def both_keep(self, name: str, rank: int, **options: object) -> list[Path]:
        """The same of both sides, which keep calls of modules: the target makes them again as the reference
        has them. rank: whose are told.
        """
        reference = self.run("reference", name, **options)  # type: ignore[arg-type]
        target = self.run("target", name, again=reference, **options)  # type: ignore[arg-type]
        for one in read_made_again(target, rank):
            if one.said and one not in self.made_again:
                self.made_again.append(one)
                self.note("target", (), one.said)
        return [reference, target]

    def both(self, name: str, **options: object) -> list[Path]:
        """The same of both sides: the reference, the target."""
        return [self.run(side, name, **options) for side in ("reference", "target")]  # type: ignore[arg-type]

    def note(self, side: str, changes: Sequence[Change], said: str) -> None:
        self.experiments.append(Experiment(side, tuple(map(said_of, changes)), said))
        self.asked.said(f"  {said}")

    def note_parting(
        self, side: str, changes: Sequence[Change], parts: Parting | None, equal: str, differ: str
    ) -> None:
        self.note(side, changes, equal if parts is None else f"{differ} {parts.said}")

    def tried(self, side: str, changes: tuple[Change, ...], **options: object) -> Path | None:
        """None: the command does not run with these changes; why is noted."""
        try:
            return self.run(side, changes=changes, **options)  # type: ignore[arg-type]
        except InvalidArgument as error:
            self.note(side, changes, f"cannot be run: {error}")
            return None


def said_of(change: Change) -> str:
    """As `--set` takes it; of values of another run the name alone."""
    return change.name if change.name.startswith(("feed.", "transplant.")) else change.said


def name_of(changes: Sequence[Change]) -> str:
    """A name for a folder."""
    text = " ".join(change.said for change in changes)
    return f"with_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
