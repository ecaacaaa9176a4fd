# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The stages of a hunt: where the runs diverge, what is suspected there, and the proof."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from msprobe.experiment.digests import first_parting, random_states_of
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.json_file import read_object
from msprobe.hunt.answer import FILE, FOLDER, PAGE, Answer, Cause, page_html
from msprobe.hunt.candidates import Setting, settings_of, values_of
from msprobe.hunt.reproduction import write_call, write_change
from msprobe.hunt.runs import Hunt, OutOfRuns, Runs
from msprobe.hunt.values import WORDS, proved_by_values
from msprobe.native import Error, InvalidArgument, NothingToCompare

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.diagnose.answer import Answer as Diagnosis
    from msprobe.diagnose.cause import Cause as Suspected
    from msprobe.experiment.digests import Parting
    from msprobe.hunt.answer import Status
    from msprobe.hunt.values import Proved

_DRAWN = ("random generators",)
_RECORDED = "0-2"
_LAST_RECORDED = 2
_KINDS_FED = ("initial weights", "inputs", "gradients", "optimizer", "weights", "buffers")


def hunt(asked: Hunt) -> Answer:
    """Runs what is missing, writes hunt.json and the page. Raises InvalidArgument where a command fails."""
    return _Hunting(asked).answer()


def is_of_other_commands(asked: Hunt) -> bool:
    """Whether the answer that is there is one of other commands."""
    file = asked.output / FILE
    if not file.exists():
        return False
    try:
        content = read_object(str(file), "the answer of a hunt")
    except Error:
        return True
    return (content.get("reference"), content.get("target")) != (asked.reference.said, asked.target.said)


class _Hunting:
    def __init__(self, asked: Hunt) -> None:
        self.asked = asked
        self._runs = Runs(asked)
        self._parting: Parting | None = None
        self._diagnosis: Path | None = None
        self._diagnosed_run = asked.output
        self._suspected = ""

    def answer(self) -> Answer:
        both = self._runs.both("1", steps=_RECORDED, stop=self.asked.stop)
        self._parting = first_parting(*both, ignores=_DRAWN)
        if self._parting is None:
            return self._ended("equal", "The target follows the reference: equal to the bit in every step")
        self.asked.said(f"they diverge at {self._parting.said}")
        try:
            return self._searched(self._parting, both)
        except OutOfRuns:
            sentence = f"First difference: {self._parting.said}; the runs are spent (--max-runs, --max-time)"
            return self._ended("unproved", sentence)

    # ---- the stages

    def _searched(self, parting: Parting, both: list[Path]) -> Answer:
        diagnosis = self._diagnosed("1", *both)
        if diagnosis is not None and diagnosis.follows:
            return self._ended("equal", diagnosis.sentence)
        if (diagnosis is None or diagnosis.cause is None) and parting.step > _LAST_RECORDED:
            both = self._runs.both("2", steps=str(parting.step), stop=parting.step + 1)
            diagnosis = self._diagnosed("2", *both)
        causes = _causes(diagnosis)
        self._suspected = "" if diagnosis is None else diagnosis.sentence
        settings = self._proved_settings(causes, parting)
        if settings is not None:
            return self._of_settings(settings)
        drawn = bool(random_states_of(both, parting))
        candidates = values_of(causes, parting, drawn=drawn)
        proved = proved_by_values(self._runs, candidates, parting) if candidates else None
        if proved is not None:
            return self._of_values(proved, causes, parting)
        proof = (
            "not proved: no setting that differs mends it, and neither does what was put in of the reference"
        )
        sentence = self._suspected or f"First difference: {parting.said}"
        return self._ended("unproved", sentence, proof, (), self._call_again(causes))

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
                tried = self._with([*needed, setting])
                if tried is None:
                    continue
                trial, parts = tried
                if parts is None:
                    return [*needed, setting]
                if parts.place > at.place:
                    found = setting, trial, parts
                    break
            if found is None:
                return None
            needed, at = [*needed, found[0]], found[2]
            diagnosis = self._diagnosed(
                f"behind_{len(needed)}", self._runs.folder("reference", "1"), found[1]
            )
            causes = _causes(diagnosis)

    def _with(self, settings: Sequence[Setting]) -> tuple[Path, Parting | None] | None:
        """The target with the values of the reference, and where it leaves it. None: it does not run."""
        changes = tuple(setting.mended() for setting in settings)
        run = self._runs.tried("target", changes, steps=_RECORDED, stop=self.asked.stop)
        if run is None:
            return None
        parts = first_parting(self._runs.folder("reference", "1"), run, ignores=_DRAWN)
        said = "follows the reference to the bit", "leaves the reference at"
        self._runs.note_parting("target", changes, parts, *said)
        return run, parts

    # ---- the answers

    def _of_settings(self, settings: list[Setting]) -> Answer:
        """Proved the other way round, too: the reference with the target's values is the target."""
        changes = tuple(setting.broken() for setting in settings)
        mended = " and ".join(setting.mended().said for setting in settings)
        broken = " and ".join(change.said for change in changes)
        proof = f"with {mended} the target follows the reference to the bit"
        run = self._runs.run("reference", changes=changes, stop=self.asked.stop)
        leaves = first_parting(self._runs.folder("reference", "1"), run, ignores=_DRAWN)
        equals = first_parting(self._runs.folder("target", "1"), run, ignores=_DRAWN)
        said = "does not change", "leaves the plain one at"
        self._runs.note_parting("reference", changes, leaves, *said)
        if leaves is None:
            proof += f"; but with {broken} the reference does not change"
        else:
            proof += f"; with {broken} the reference leaves it at step {leaves.step}"
            proof += ", and is the target to the bit" if equals is None else ""
        causes = [Cause(setting.said, (setting.mended().said,)) for setting in settings]
        what = " and ".join(setting.said for setting in settings)
        lines = write_change(self._folder(), [(one.mended(), one.target) for one in settings])
        return self._ended(*_judged(what, leaves), proof, causes, lines)

    def _of_values(self, proved: Proved, suspected: Sequence[Suspected], parting: Parting) -> Answer:
        first = proved.steps[0]
        words = " and ".join(map(_put_in, proved.names))
        proof = f"with the {words} of the reference put in at step {first} the target follows it to the bit"
        if proved.leaves is not None:
            proof += f"; with those of the target the reference leaves it at step {proved.leaves.step}"
            proof += ", and is the target to the bit" if proved.is_target else ""
        causes = [_cause_of(name, suspected, parting) for name in proved.names]
        what = " and ".join(one.said for one in causes)
        call = self._call_again(suspected)
        return self._ended(*_judged(what, proved.leaves), proof, causes, call)

    def _folder(self) -> Path:
        return make_directory(self.asked.output / FOLDER)

    def _call_again(self, suspected: Sequence[Suspected]) -> list[Path]:
        """A script of the call that the diagnosis names."""
        return write_call(self._folder(), self._diagnosed_run, suspected[0]) if suspected else []

    def _ended(
        self,
        status: Status,
        sentence: str,
        proof: str = "",
        causes: Sequence[Cause] = (),
        reproduction: Sequence[Path] = (),
    ) -> Answer:
        answer = Answer(
            status,
            sentence,
            proof,
            self.asked.reference.said,
            self.asked.target.said,
            self._parting,
            tuple(causes),
            self._suspected,
            tuple(self._runs.experiments),
            (self._runs.counts["reference"], self._runs.counts["target"]),
            self._runs.seconds,
            tuple(os.path.relpath(path, self.asked.output) for path in reproduction),
        )
        folder = self._folder()
        page = "" if self._diagnosis is None else os.path.relpath(self._diagnosis / "index.html", folder)
        write_text(folder / PAGE, page_html(answer, page))
        write_text(self.asked.output / FILE, answer.json())
        return answer

    def _diagnosed(self, name: str, reference: Path, target: Path) -> Diagnosis | None:
        """None: the recordings have nothing in common."""
        from msprobe.diagnose.command import diagnose_runs

        output = self.asked.output / "diagnosis" / name
        shutil.rmtree(output, ignore_errors=True)
        try:
            answer = diagnose_runs(reference, target, output, graph=False, force=True, shows_progress=False)
        except (NothingToCompare, InvalidArgument):
            return None
        self._diagnosis, self._diagnosed_run = output, target
        self.asked.said(f"diagnose: {answer.sentence}")
        return answer


def _causes(diagnosis: Diagnosis | None) -> list[Suspected]:
    if diagnosis is None:
        return []
    return [*([diagnosis.cause] if diagnosis.cause is not None else []), *diagnosis.others]


def _judged(what: str, leaves: Parting | None) -> tuple[Status, str]:
    """leaves: of the reference with the same put in; None: it does not change by it."""
    return ("unproved", f"Suspected: {what}") if leaves is None else ("proved", f"Proved: {what}")


def _put_in(name: str) -> str:
    return WORDS.get(name) or f"results and gradients of {name.partition('.')[2]}"


def _cause_of(name: str, suspected: Sequence[Suspected], parting: Parting) -> Cause:
    module = name.removeprefix("transplant.")
    if module != name:
        inside = next(
            (one for one in suspected if one.module and f"{one.module}.".startswith(f"{module}.")), None
        )
        said = f"what {module} computes in step {parting.step}"
        return Cause(said if inside is None else f"{said}: {inside.said}", (name,))
    names = f" ({', '.join(parting.names[:3])})" if parting.kind in _KINDS_FED and parting.names else ""
    return Cause(f"the {WORDS[name]} of step {parting.step}{names}", (name,))
