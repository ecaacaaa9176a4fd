# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a training several times from the same start, and then with what may make it repeat itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.experiment.digests import first_parting, noise_of_losses, random_states_of
from msprobe.experiment.launch import run_command
from msprobe.experiment.narrowing import needed_of
from msprobe.experiment.plan import Change, Plan
from msprobe.experiment.sources import read_notes
from msprobe.files.atomic_file import write_text
from msprobe.native import InvalidArgument
from msprobe.repeat.answer import FILE, Answer, Trial
from msprobe.repeat.first_call import first_call, tags_of
from msprobe.repeat.suspects import Suspect, suspects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.experiment.command_line import Command
    from msprobe.experiment.digests import Parting

_DRAWN = ("random generators",)
"""The state of a generator that nobody draws from is nothing of the training: what is drawn shows."""
_RECORDED = "0-2"
_STEPS_AFTER = 3  # that a trial has to follow behind the first one that diverged


@dataclass(frozen=True)
class Repetition:
    """What is asked."""

    command: Command
    output: Path
    runs: int = 2
    stop: int | None = None
    """The step that is not begun any more."""
    limit: float | None = None
    """Seconds for a run."""
    most_runs: int = 20
    said: Callable[[str], None] = lambda _: None
    """Told each thing that is begun."""


def repeat(asked: Repetition) -> Answer:
    """Raises InvalidArgument where a run fails, and IoError."""
    return _Experiment(asked).answer()


class _Experiment:
    def __init__(self, asked: Repetition) -> None:
        self._asked = asked
        self._runs = 0
        self._steps = 0

    def answer(self) -> Answer:
        asked = self._asked
        runs = [
            self._run(f"run_{number}", steps=_RECORDED, stop=asked.stop)
            for number in range(1, asked.runs + 1)
        ]
        parted = _parted(runs)
        if parted is None:
            answer = Answer(asked.command.said, asked.output, self._steps, self._runs)
        else:
            parting, other = parted
            answer = self._explained(parting, [runs[0], other], noise_of_losses(runs))
        write_text(asked.output / FILE, answer.json())
        return answer

    def _run(
        self, name: str, *, changes: tuple[Change, ...] = (), steps: str = "", stop: int | None = None
    ) -> Path:
        folder = self._asked.output / name
        with_what = f" with {' '.join(change.said for change in changes)}" if changes else ""
        self._asked.said(f"{name}{with_what}")
        plan = Plan(str(folder), changes, stop=stop, steps=steps, notes_sources=not changes)
        self._runs += 1
        run = run_command(self._asked.command, plan, without=self._asked.output, limit=self._asked.limit)
        self._steps = max(self._steps, run.steps)
        return folder

    def _explained(self, parting: Parting, pair: list[Path], noise: list[tuple[int, float]]) -> Answer:
        notes = read_notes(pair[0])
        call = first_call(pair[0], pair[1], parting.step, parting.rank)
        if call is None and parting.kind != "steps" and parting.step > 2:
            pair = [
                self._run(f"step_{parting.step}/run_{n}", steps=str(parting.step), stop=parting.step + 1)
                for n in (1, 2)
            ]
            call = first_call(pair[0], pair[1], parting.step, parting.rank)
        tags = set() if call is None else tags_of(call.operator)
        found = suspects(
            parting, call, tags, random_states_of(pair, parting), notes,
            {**os.environ, **self._asked.command.environment},
        )  # fmt: skip
        trials, proved = self._tried(found, parting)
        return Answer(
            self._asked.command.said,
            self._asked.output,
            self._steps,
            self._runs,
            parting=parting,
            call=call,
            tags=tuple(sorted(tag for tag in tags if tag.startswith("nondeterministic"))),
            noise=tuple(noise),
            proved=tuple(proved),
            trials=tuple(trials),
        )

    def _tried(self, found: list[Suspect], parting: Parting) -> tuple[list[Trial], list[Suspect]]:
        """Each alone; where none is enough, all together, and then without each that is not needed."""
        trials: list[Trial] = []

        def repeats(some: Sequence[Suspect]) -> bool | None:
            """None: there are no runs left."""
            if self._runs + self._asked.runs > self._asked.most_runs:
                return None
            name = f"trials/{len(trials) + 1}"
            changes = tuple(suspect.change for suspect in some)
            stop = parting.step + _STEPS_AFTER
            if self._asked.stop is not None:
                stop = min(stop, self._asked.stop)
            try:
                runs = [
                    self._run(f"{name}/run_{number}", changes=changes, stop=stop)
                    for number in range(1, self._asked.runs + 1)
                ]
            except InvalidArgument as error:
                trials.append(Trial(changes, repeats=False, said=str(error)))
                return False
            parted = _parted(runs)
            said = "" if parted is None else parted[0].said
            trials.append(Trial(changes, repeats=parted is None, said=said))
            return parted is None

        for suspect in found:
            alone = repeats([suspect])
            if alone:
                return trials, [suspect]
            if alone is None:
                return trials, []
        if len(found) < 2 or not repeats(found):
            return trials, []
        return trials, needed_of(found, repeats, least=2)


def _parted(runs: list[Path]) -> tuple[Parting, Path] | None:
    """The earliest between the first run and another one, and this one."""
    partings = ((first_parting(runs[0], other, ignores=_DRAWN), other) for other in runs[1:])
    found = [(parting, other) for parting, other in partings if parting is not None]
    return min(found, key=lambda one: one[0].step, default=None)
