# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a training straight on, stops and resumes another one, and restores what the resume did not."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.experiment.digests import first_parting, read_digests
from msprobe.experiment.launch import run_command, work_of
from msprobe.experiment.narrowing import needed_of
from msprobe.experiment.plan import Change, Plan
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.native import InvalidArgument
from msprobe.resume.answer import FILE, PARTS, Answer, Trial
from msprobe.resume.saved import last_saved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.experiment.command_line import Command
    from msprobe.experiment.digests import Parting
    from msprobe.experiment.launch import Run

_DRAWN = ("random generators",)
_PUT_IN = ("random generators", "initial weights", "inputs", "optimizer")
_PLACES = ("{checkpoint}", "{checkpoint_folder}")


@dataclass(frozen=True)
class Resume:
    """What is asked. at: the step before which the run is stopped; after: steps that are compared behind."""

    command: Command
    resumed: Command
    output: Path
    at: int
    after: int = 3
    limit: float | None = None
    said: Callable[[str], None] = lambda _: None


def resume(asked: Resume) -> Answer:
    """Raises InvalidArgument where a run fails, leaves no checkpoint or is not repeated, and IoError."""
    answer = _Resuming(asked).answer()
    write_text(asked.output / FILE, answer.json())
    return answer


@dataclass
class _Resuming:
    asked: Resume
    trials: list[Trial] = field(default_factory=list)
    stopped: Run | None = None

    def answer(self) -> Answer:
        asked = self.asked
        straight = self._run("straight", stop=asked.at + asked.after).folder
        self.stopped = self._run("stopped", stop=asked.at)
        self._check_repeats(straight, self.stopped.folder)
        resumed = self._resumed("resumed")
        begins, ignored = _beginning(straight, resumed, asked.at)
        if ignored:
            return self._answer(None, None, ignored=True)
        at = asked.at if begins is None else begins
        parting = self._parting(straight, resumed, at, _DRAWN)
        if parting is None:
            return self._answer(begins, None)
        return self._answer(begins, parting, self._missing(at))

    def _answer(
        self,
        begins: int | None,
        parting: Parting | None,
        missing: Sequence[str] = (),
        *,
        ignored: bool = False,
    ) -> Answer:
        return Answer(
            self.asked.command.said,
            self.asked.resumed.said,
            begins,
            ignored,
            parting,
            self.asked.after,
            tuple(missing),
            tuple(self.trials),
            self._saved() if self._is_told else "",
        )

    def _check_repeats(self, straight: Path, stopped: Path) -> None:
        parting = first_parting(straight, stopped, ignores=_DRAWN, steps=(0, self.asked.at))
        if parting is not None:
            raise InvalidArgument(
                f"{self.asked.command.said}: expected a training that repeats itself to the bit, found two "
                f"runs that diverge at {parting.said}, before any resume; ask msprobe repeat why"
            )

    def _missing(self, at: int) -> list[str]:
        """The smallest part of the state that has to be restored; nothing where all of it is not enough."""
        last = at + self.asked.after
        kept = self._run("kept", stop=last, keeps=(at, last), keeps_values=tuple(PARTS)).folder

        def follows(some: Sequence[str]) -> bool:
            changes = tuple(Change(f"feed.{one}", str(kept), 0, at) for one in some)
            run = self._resumed(f"restored/{len(self.trials) + 1}", changes)
            parts = self._parting(kept, run, at, _PUT_IN)
            self.trials.append(Trial(tuple(some), parts is None, "" if parts is None else parts.said))
            return parts is None

        parts = list(PARTS)
        return needed_of(parts, follows) if follows(parts) else []

    def _parting(self, straight: Path, run: Path, at: int, ignores: tuple[str, ...]) -> Parting | None:
        return first_parting(straight, run, ignores=ignores, steps=(at, at + self.asked.after), shift=at)

    # ---- runs

    def _run(
        self,
        name: str,
        *,
        stop: int,
        keeps: tuple[int, int] | None = None,
        keeps_values: tuple[str, ...] = (),
    ) -> Run:
        self.asked.said(f"{name}: {self.asked.command.said}")
        plan = Plan(str(self.asked.output / name), stop=stop, keeps=keeps, keeps_values=keeps_values)
        return run_command(self.asked.command, plan, without=self.asked.output, limit=self.asked.limit)

    def _resumed(self, name: str, changes: tuple[Change, ...] = ()) -> Path:
        """In a copy of what the stopped run left."""
        assert self.stopped is not None
        with_what = f" with {', '.join(change.name[5:] for change in changes)} restored" if changes else ""
        self.asked.said(f"resumed{with_what}: {self.asked.resumed.said}")
        folder = self.asked.output / name
        make_directory(folder.parent)
        shutil.copytree(self.stopped.folder / "work", folder / "work", symlinks=True)
        command = self.asked.resumed
        work = folder / "work" / work_of(self.stopped, command).relative_to(self.stopped.folder / "work")
        if self._is_told:
            path = work / self._saved()
            of_files = path if path.is_dir() else path.parent
            command = command.placed(checkpoint=path, checkpoint_folder=of_files)
        plan = Plan(str(folder), changes, stop=self.asked.after)
        run_command(command, plan, without=self.asked.output, limit=self.asked.limit, work=work)
        return folder

    @property
    def _is_told(self) -> bool:
        """Whether the command that resumes takes the checkpoint."""
        return any(place in self.asked.resumed.said for place in _PLACES)

    def _saved(self) -> str:
        """The checkpoint, from the folder where the command runs. Raises InvalidArgument."""
        assert self.stopped is not None
        found = last_saved(self.stopped.folder / "work")
        if found is None:
            raise InvalidArgument(
                f"{self.asked.command.said}: saved nothing before step {self.asked.at} that could be "
                "resumed; expected a checkpoint under a name relative to the folder where the command runs"
            )
        return os.path.relpath(found, work_of(self.stopped, self.asked.resumed))


def _beginning(straight: Path, resumed: Path, at: int) -> tuple[int | None, bool]:
    """The step of the straight run that begins with the weights of the resumed one, the last such one; and
    whether these are those of step 0.
    """
    ours = read_digests(straight).get(0, [])
    theirs = read_digests(resumed).get(0, [])
    if not ours or not theirs:
        return None, False
    first = theirs[0].get("initial weights", {})
    for line in reversed(ours[:at]):
        if {**line["weights"], **line["buffers"]} == first:
            return int(line["step"]) + 1, False
    return None, ours[0].get("initial weights") == first and at > 0
