# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The stages of a hunt: where the runs part, what is suspected there, and the proof."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.experiment.digests import first_parting
from msprobe.experiment.launch import run_once
from msprobe.experiment.narrowing import needed_of
from msprobe.experiment.plan import Change, Plan
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.hunt.answer import FILE, FOLDER, PAGE, Answer, Cause, Experiment, page_html
from msprobe.hunt.candidates import Setting, fed_of, settings_of
from msprobe.native import InvalidArgument, NothingToCompare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.diagnose.answer import Answer as Diagnosis
    from msprobe.diagnose.cause import Cause as Suspected
    from msprobe.experiment.command_line import Command
    from msprobe.experiment.digests import Parting
    from msprobe.hunt.answer import Status

_DRAWN = ("random generators",)
_PUT_IN = ("random generators", "initial weights", "inputs")
_RECORDED = "0-2"
_LAST_RECORDED = 2
_STEPS_AFTER = 3


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


class OutOfRuns(Exception):
    """The budget is spent."""


def hunt(asked: Hunt) -> Answer:
    """Runs what is missing, writes hunt.json and the page. Raises InvalidArgument where a command fails."""
    return _Hunting(asked).answer()


@dataclass
class _Hunting:
    asked: Hunt
    experiments: list[Experiment] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=lambda: {"reference": 0, "target": 0})
    seconds: float = 0.0
    diagnosis: Path | None = None

    def answer(self) -> Answer:
        begin = time.monotonic()
        both = [
            self._run(side, "1", steps=_RECORDED, stop=self.asked.stop) for side in ("reference", "target")
        ]
        parting = first_parting(*both, ignores=_DRAWN)
        if parting is None:
            return self._ended(
                "equal", "The target follows the reference: equal to the bit in every step", "", begin
            )
        self.asked.said(f"they part at {parting.said}")
        try:
            return self._searched(parting, both, begin)
        except OutOfRuns:
            sentence = f"First difference: {parting.said}; the runs are spent (--max-runs)"
            return self._ended("unproved", sentence, "", begin, parting)

    # ---- the stages

    def _searched(self, parting: Parting, both: list[Path], begin: float) -> Answer:
        diagnosis = self._diagnosed("1", both[0], both[1])
        if diagnosis is not None and diagnosis.follows:
            return self._ended("equal", diagnosis.sentence, "", begin, parting)
        if (diagnosis is None or diagnosis.cause is None) and parting.step > _LAST_RECORDED:
            both = [
                self._run(side, "2", steps=str(parting.step), stop=parting.step + 1)
                for side in ("reference", "target")
            ]
            diagnosis = self._diagnosed("2", both[0], both[1])
        causes = _causes(diagnosis)
        suspected = "" if diagnosis is None else diagnosis.sentence
        settings = self._proved_settings(causes, parting)
        if settings is not None:
            return self._of_settings(settings, parting, suspected, begin)
        fed = self._proved_values(causes, parting)
        if fed is not None:
            return self._of_values(fed, parting, suspected, begin)
        sentence = suspected or f"First difference: {parting.said}"
        proof = (
            "not proved: no setting that differs mends it, and neither do the inputs, weights and random "
            "states of the reference: what differs is what the model, its backward pass or the optimizer "
            "computes"
        )
        return self._ended("unproved", sentence, proof, begin, parting, suspected=suspected)

    def _proved_settings(self, causes: Sequence[Suspected], parting: Parting) -> list[Setting] | None:
        """Those without which the target follows, each needed; None: there are none. The search goes on
        behind a setting with which the target follows for longer.
        """
        needed: list[Setting] = []
        at = parting
        while True:
            found = None
            for setting in settings_of(causes, at.step):
                if any(setting.name == one.name for one in needed):
                    continue
                trial, parts = self._with([*needed, setting], parting)
                if parts is None:
                    return [*needed, setting]
                if parts.place > at.place:
                    found = setting, trial, parts
                    break
            if found is None:
                return None
            needed, at = [*needed, found[0]], found[2]
            diagnosis = self._diagnosed(f"behind_{len(needed)}", self._folder("reference", "1"), found[1])
            causes = _causes(diagnosis)

    def _with(self, settings: Sequence[Setting], parting: Parting) -> tuple[Path, Parting | None]:
        """The target with the values of the reference; where it leaves the reference."""
        changes = tuple(setting.mended() for setting in settings)
        run = self._run("target", _name(changes), changes=changes, steps=_RECORDED, stop=self.asked.stop)
        parts = first_parting(self._folder("reference", "1"), run, ignores=_DRAWN)
        self._note("target", changes, parts, "follows the reference to the bit", "leaves the reference at")
        return run, parts

    def _proved_values(self, causes: Sequence[Suspected], parting: Parting) -> list[str] | None:
        """What of the reference has to be put into the target to have it follow; None: all is not enough."""
        steps = (parting.step, parting.step + _STEPS_AFTER)
        kept = {side: self._run(side, "kept", stop=steps[1], keeps=steps) for side in ("reference", "target")}
        names = fed_of(causes)

        def follows(some: Sequence[str]) -> bool:
            changes = tuple(Change(f"feed.{one}", str(kept["reference"]), parting.step) for one in some)
            run = self._run("target", _name(changes), changes=changes, stop=steps[1])
            # What was put in is no evidence: what the step makes of it is.
            parts = first_parting(kept["reference"], run, ignores=_PUT_IN, steps=(parting.step, steps[1]))
            self._note("target", changes, parts, "follows the reference to the bit", "leaves it at")
            return parts is None

        for name in names:
            if follows([name]):
                return [name]
        if not follows(names):
            return None
        return needed_of(names, follows, least=2)

    # ---- the answers

    def _of_settings(self, settings: list[Setting], parting: Parting, suspected: str, begin: float) -> Answer:
        """Proved the other way round, too: the reference with the target's values is the target."""
        changes = tuple(setting.broken() for setting in settings)
        mended = " and ".join(setting.mended().said for setting in settings)
        broken = " and ".join(change.said for change in changes)
        proof = f"with {mended} the target follows the reference to the bit"
        run = self._run("reference", _name(changes), changes=changes, stop=self.asked.stop)
        leaves = first_parting(self._folder("reference", "1"), run, ignores=_DRAWN)
        equals = first_parting(self._folder("target", "1"), run, ignores=_DRAWN)
        self._note("reference", changes, leaves, "does not change", "leaves the plain one at")
        if leaves is None:
            status: Status = "unproved"
            proof += f"; but with {broken} the reference does not change"
        else:
            status = "proved"
            proof += f"; with {broken} the reference leaves it at step {leaves.step}"
            proof += ", and is the target to the bit" if equals is None else ""
        causes = [Cause(setting.said, (setting.mended().said,)) for setting in settings]
        what = " and ".join(setting.said for setting in settings)
        sentence = f"{'Proved' if status == 'proved' else 'Suspected'}: {what}"
        return self._ended(status, sentence, proof, begin, parting, causes, suspected)

    def _of_values(self, fed: list[str], parting: Parting, suspected: str, begin: float) -> Answer:
        kept = self._folder("target", "kept")
        changes = tuple(Change(f"feed.{one}", str(kept), parting.step) for one in fed)
        words = " and ".join(_VALUES[one] for one in fed)
        stop = parting.step + _STEPS_AFTER
        run = self._run("reference", _name(changes), changes=changes, stop=stop)
        leaves = first_parting(
            self._folder("reference", "kept"), run, ignores=_PUT_IN, steps=(parting.step, stop)
        )
        self._note("reference", changes, leaves, "does not change", "leaves the plain one at")
        proof = f"with the {words} of the reference put in at step {parting.step} the target follows it to "
        proof += "the bit"
        status: Status = "unproved" if leaves is None else "proved"
        if leaves is not None:
            proof += f"; with those of the target the reference leaves it at step {leaves.step}"
        sentence = (
            f"{'Proved' if status == 'proved' else 'Suspected'}: the {words} of step {parting.step} differ"
        )
        sentence += f" ({', '.join(parting.names[:3])})" if parting.kind in _KINDS_FED else ""
        causes = [Cause(f"the {words} of step {parting.step}", tuple(f"feed.{one}" for one in fed))]
        return self._ended(status, sentence, proof, begin, parting, causes, suspected)

    def _ended(
        self,
        status: Status,
        sentence: str,
        proof: str,
        begin: float,
        parting: Parting | None = None,
        causes: Sequence[Cause] = (),
        suspected: str = "",
    ) -> Answer:
        answer = Answer(
            status,
            sentence,
            proof,
            self.asked.reference.said,
            self.asked.target.said,
            parting,
            tuple(causes),
            suspected,
            tuple(self.experiments),
            (self.runs["reference"], self.runs["target"]),
            time.monotonic() - begin,
        )
        folder = make_directory(self.asked.output / FOLDER)
        page = "" if self.diagnosis is None else os.path.relpath(self.diagnosis / "index.html", folder)
        write_text(folder / PAGE, page_html(answer, page))
        write_text(self.asked.output / FILE, answer.json())
        return answer

    # ---- runs

    def _folder(self, side: str, name: str) -> Path:
        return self.asked.output / side / name

    def _run(
        self,
        side: str,
        name: str,
        *,
        changes: tuple[Change, ...] = (),
        steps: str = "",
        stop: int | None = None,
        keeps: tuple[int, int] | None = None,
    ) -> Path:
        """Raises OutOfRuns, InvalidArgument."""
        if sum(self.runs.values()) >= self.asked.most_runs:
            raise OutOfRuns
        folder = self._folder(side, name)
        plan = Plan(str(folder), changes, stop=stop, steps=steps, keeps=keeps)
        words = f" with {' '.join(change.said for change in changes)}" if changes else ""
        command = self.asked.reference if side == "reference" else self.asked.target
        self.asked.said(f"{side}{words}")
        run, is_new = run_once(command, plan, without=self.asked.output, limit=self.asked.limit)
        self.runs[side] += 1
        if not is_new:
            self.asked.said(f"{side}{words}: was there already")
        return run.folder

    def _note(
        self, side: str, changes: tuple[Change, ...], parts: Parting | None, equal: str, differ: str
    ) -> None:
        said = equal if parts is None else f"{differ} {parts.said}"
        names = tuple(one.name if one.name.startswith("feed.") else one.said for one in changes)
        self.experiments.append(Experiment(side, names, said))
        self.asked.said(f"  {said}")

    def _diagnosed(self, name: str, reference: Path, target: Path) -> Diagnosis | None:
        """None: the recordings have nothing in common."""
        from msprobe.diagnose.command import diagnose_runs

        output = self.asked.output / "diagnosis" / name
        shutil.rmtree(output, ignore_errors=True)
        try:
            answer = diagnose_runs(reference, target, output, graph=False, force=True, shows_progress=False)
        except (NothingToCompare, InvalidArgument):
            return None
        self.diagnosis = output
        self.asked.said(f"diagnose: {answer.sentence}")
        return answer


_VALUES = {"random": "random states", "weights": "weights", "inputs": "inputs"}
_KINDS_FED = ("initial weights", "inputs", "weights", "buffers")


def _causes(diagnosis: Diagnosis | None) -> list[Suspected]:
    if diagnosis is None:
        return []
    return [*([diagnosis.cause] if diagnosis.cause is not None else []), *diagnosis.others]


def _name(changes: tuple[Change, ...]) -> str:
    """A name for a folder."""
    text = " ".join(change.said for change in changes)
    return f"with_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
