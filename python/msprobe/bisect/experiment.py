# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a training with some of the changes again and again, and asks the check of each run."""

from __future__ import annotations

import functools
import os
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.bisect.answer import FILE, Answer, Trial
from msprobe.experiment.inside import MODULES
from msprobe.experiment.launch import run_command
from msprobe.experiment.narrowing import least_of
from msprobe.experiment.plan import Change, Plan
from msprobe.files.atomic_file import write_text
from msprobe.files.regular_file import open_to_write, read_text
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.bisect.answer import Status
    from msprobe.experiment.command_line import Command

CHECKED = "check.txt"
"""In the folder of a run: what the check wrote."""

_CANNOT_TELL = 125  # as `git bisect run` has it


@dataclass(frozen=True)
class Bisection:
    """What is asked. check: its exit code 0 is "passes", 125 "cannot be told", every other one "fails"."""

    command: Command
    check: Command
    output: Path
    changes: tuple[Change, ...] = ()
    modules: str = ""
    """A change of every module, "precision=float32" or "transplant=RUN": the smallest are looked for."""
    finds_step: bool = False
    stop: int | None = None
    limit: float | None = None
    most_runs: int = 50
    said: Callable[[str], None] = lambda _: None


class _OutOfRuns(Exception):
    pass


def bisect(asked: Bisection) -> Answer:
    """Writes bisect.json. Raises InvalidArgument where the plain training does not run, and IoError."""
    answer = _Bisecting(asked).answer()
    write_text(asked.output / FILE, answer.json())
    return answer


@dataclass
class _Bisecting:
    asked: Bisection
    trials: list[Trial] = field(default_factory=list)
    known: dict[tuple[Change, ...], bool] = field(default_factory=dict)
    found: tuple[Change, ...] = ()

    def answer(self) -> Answer:
        try:
            return self._searched()
        except _OutOfRuns:
            return self._ended("out of runs")

    def _searched(self) -> Answer:
        if self._passes((), must_run=True):
            return self._ended("passes")
        changes = [*self.asked.changes, *self._of_modules("")]
        if not changes or not self._passes(changes):
            return self._ended("not found")
        self.found = tuple(least_of(changes, self._passes))
        while (finer := self._finer()) is not None:
            self.found = finer
        return self._ended("found", self._first() if self.asked.finds_step else None)

    def _finer(self) -> tuple[Change, ...] | None:
        """With the parts of one of the modules in its place; None: no part is enough."""
        for change in self.found:
            path = change.name.partition(".")[2]
            parts = self._of_modules(path) if self._is_of_modules(change) else []
            rest = [one for one in self.found if one is not change]
            if parts and self._passes([*rest, *parts]):
                return (*rest, *least_of(parts, functools.partial(self._passes_with, rest)))
        return None

    def _is_of_modules(self, change: Change) -> bool:
        return bool(self.asked.modules) and change not in self.asked.changes

    def _of_modules(self, around: str) -> list[Change]:
        """A change for each part directly inside of a module. Raises InvalidArgument."""
        if not self.asked.modules:
            return []
        kind, equals, value = self.asked.modules.partition("=")
        if kind not in ("precision", "transplant") or not equals:
            raise InvalidArgument(f"{self.asked.modules}: expected precision=DTYPE or transplant=RUN")
        file = self.asked.output / "1" / MODULES
        names = read_text(file).splitlines() if file.exists() else []
        prefix = f"{around}." if around else ""
        inside = [name for name in names if name.startswith(prefix)]
        # What holds modules and is not called itself, as a list of them, is no part: those in it are.
        parts = [name for name in inside if not any(name.startswith(f"{one}.") for one in inside)]
        return [Change(f"{kind}.{name}", value) for name in parts]

    def _first(self) -> int:
        """The latest step from which on the changes may hold: steps behind it are no use."""
        low, high = 0, self._steps
        while high - low > 1:
            middle = (low + high) // 2
            if self._passes([replace(change, first=middle) for change in self.found]):
                low = middle
            else:
                high = middle
        return low

    # ---- runs

    _steps = 0

    def _passes_with(self, rest: Sequence[Change], changes: Sequence[Change]) -> bool:
        return self._passes([*rest, *changes])

    def _passes(self, changes: Sequence[Change], *, must_run: bool = False) -> bool:
        """must_run: one that does not run is an error, and not a run that fails."""
        key = tuple(changes)
        if key in self.known:
            return self.known[key]
        if len(self.trials) >= self.asked.most_runs:
            raise _OutOfRuns
        names = tuple(one.said + (f" from step {one.first} on" if one.first else "") for one in changes)
        self.asked.said(" ".join(names) or "nothing changed")
        folder = self.asked.output / str(len(self.trials) + 1)
        plan = Plan(str(folder), key, stop=self.asked.stop, lists_modules=not key)
        passes, said = False, ""
        try:
            run = run_command(self.asked.command, plan, without=self.asked.output, limit=self.asked.limit)
            self._steps = max(self._steps, run.steps)
            passes, said = self._checked(folder)
        except InvalidArgument as error:
            if must_run:
                raise
            said = str(error)
        self.trials.append(Trial(names, passes, said))
        self.asked.said(f"  {'passes' if passes else 'fails'}")
        self.known[key] = passes
        return passes

    def _checked(self, folder: Path) -> tuple[bool, str]:
        """Raises InvalidArgument where there is no such program."""
        check = self.asked.check.placed(run=folder)
        environment = {**os.environ, **check.environment}
        with open_to_write(folder / CHECKED) as output:
            try:
                done = subprocess.run(
                    check.words,
                    cwd=check.folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=self.asked.limit,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return False, f"the check was ended after {self.asked.limit:g} s (--limit)"
            except OSError as error:
                raise InvalidArgument(f"{check.said}: cannot be run: {error.strerror}") from error
        if done.returncode == _CANNOT_TELL:
            return False, f"the check cannot tell (exit code {_CANNOT_TELL})"
        return done.returncode == 0, ""

    def _ended(self, status: Status, first: int | None = None) -> Answer:
        return Answer(
            status,
            self.asked.command.said,
            self.asked.check.said,
            tuple(change.said for change in self.found),
            first,
            tuple(self.trials),
        )
