# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The stages of a hunt: where the runs diverge, what is suspected there, and the proof."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.experiment.changes import BACKENDS
from msprobe.experiment.digests import first_parting, noise_of_losses, random_states_of
from msprobe.experiment.inside import COMPILED
from msprobe.experiment.narrowing import least_of
from msprobe.experiment.plan import Change
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.json_file import read_object
from msprobe.hunt.answer import FILE, FOLDER, PAGE, Answer, Cause, page_html
from msprobe.hunt.candidates import Setting, settings_of, values_of
from msprobe.hunt.following import DRAWN, Follower
from msprobe.hunt.reproduction import write_call, write_change
from msprobe.hunt.runs import Hunt, OutOfRuns, Runs
from msprobe.hunt.values import WORDS, NotRepeated, Put, proved_by_values
from msprobe.native import Error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.diagnose.cause import Cause as Suspected
    from msprobe.experiment.digests import Parting
    from msprobe.hunt.answer import Status
    from msprobe.hunt.following import Followed
    from msprobe.hunt.values import Proved

_RECORDED = "0-2"
_LAST_RECORDED = 2
_NO_RULER = (
    "all was judged to the bit, as the reference repeats itself; a target that rounds otherwise needs "
    "--target-env or --target-python, in which the reference is run, too"
)
"""Of what is not proved where there is no noise to measure by."""
_FED_OF_STAGE = {
    "data": ("feed.inputs", "feed.random"),
    "initial weights": ("feed.weights",),
    "gradients": ("feed.gradients", "feed.loss"),
    "operators": ("feed.gradients", "feed.loss"),
    "optimizer": ("feed.optimizer", "feed.update"),
}
"""What is put in for something that the diagnosis found in such a stage."""
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


@dataclass(frozen=True)
class _Left:
    """What is still to be found: where the target leaves the reference, and what the diagnosis says of it."""

    parting: Parting
    causes: Sequence[Suspected]
    runs: Sequence[Path]
    """That were compared: of the reference, of the target."""


class _Hunting:
    def __init__(self, asked: Hunt) -> None:
        self.asked = asked
        self._runs = Runs(asked)
        self._follower = Follower(asked.output / "diagnosis", asked.noise, asked.said)
        self._parting: Parting | None = None
        self._diagnosis: Path | None = None
        self._diagnosed_run = asked.output
        self._suspected = ""
        self._rounds = 0
        self._mended: Followed | None = None
        """The last that was tried of settings."""

    def answer(self) -> Answer:
        both = self._runs.both("1", steps=_RECORDED, stop=self.asked.stop)
        found = self._compared("1", *both)
        if found.follows:
            return self._following(found)
        try:
            if self.asked.reference_there is not None:
                found = self._in_one_environment(found)
            return self._following(found) if found.follows else self._searched(found)
        except OutOfRuns:
            said = "" if self._parting is None else self._parting.said
            sentence = self._suspected or f"First difference: {said}"
            return self._ended("unproved", f"{sentence}; the runs are spent (--max-runs, --max-time)")

    def _following(self, found: Followed) -> Answer:
        if found.diagnosis is None:
            return self._ended("equal", "The target follows the reference: equal to the bit in every step")
        sentence = found.diagnosis.sentence
        noise = "; no more than the reference from itself" if self._follower.knows_noise else ""
        return self._ended("equal", sentence + noise)

    def _compared(self, name: str, reference: Path, target: Path) -> Followed:
        """What the answer is about from here on."""
        found = self._follower.compared(name, reference, target)
        self._parting = found.leaves or found.parting
        if self._parting is not None:
            self.asked.said(f"they diverge at {self._parting.said}")
        if found.report is not None:
            self._diagnosis, self._diagnosed_run = found.report, target
        return found

    # ---- the stages

    def _in_one_environment(self, found: Followed) -> Followed:
        """Runs the reference in the environment of the target. Where this differs by rounding alone it is
        the reference from here on: what the two commands differ by shows to the bit there.
        """
        here = self._runs.folder("reference", "1")
        there = self._runs.run("there", "1", steps=_RECORDED, stop=self.asked.stop)
        moved = self._follower.compared("environment", here, there)
        words = "is itself to the bit"
        if not moved.is_exact:
            losses = max((value for _, value in noise_of_losses([here, there])), default=0.0)
            words = (
                f"differs by {'rounding' if moved.follows else 'more than rounding'}, losses by {losses:.1e}"
            )
        self._runs.note("reference", (), f"in the environment of the target: {words}")
        if not moved.follows:
            return found
        self._runs.move_reference()
        return self._compared("1_there", there, self._runs.folder("target", "1"))

    def _searched(self, found: Followed) -> Answer:
        parting = found.leaves
        assert parting is not None
        if not found.causes and parting.step > _LAST_RECORDED:
            both = self._runs.both("2", steps=str(parting.step), stop=parting.step + 1)
            again = self._follower.compared("2", *both)
            if again.diagnosis is not None:
                found = again
                self._diagnosis, self._diagnosed_run = found.report, both[1]
        first = found.causes[0].step if found.causes else None
        if first is not None and parting.step < first:  # bits part by something else, before the cause
            noisy = self._of_noise()
            if noisy is not None:
                return noisy
        self._suspected = "" if found.diagnosis is None else found.diagnosis.sentence
        settings, left = self._proved_settings(_Left(parting, found.causes, found.runs))
        if left is None:
            return self._of_settings(settings)
        if (found.runs[1] / COMPILED).exists() and not settings:
            compiled = self._of_compiler()
            if compiled is not None:
                return compiled
        puts, proved = _puts(left), None
        repeats = None if self._follower.knows_noise else self._repeats
        with contextlib.suppress(NotRepeated):
            if puts:
                proved = proved_by_values(self._runs, puts, left.parting, settings, self._behind, repeats)
        if proved is not None:
            return self._of_values(proved, settings)
        return self._of_noise() or self._unproved(parting, found.causes)

    def _repeats(self, run: Path, stop: int) -> bool:
        """The nodes of a run that keeps calls of modules may make it another one than the plain run."""
        plain = self._runs.folder("reference", "1")
        return (
            first_parting(plain, run, ignores=DRAWN, steps=(0, stop)) is None
            or first_parting(plain, self._again(), ignores=DRAWN) is None
        )

    def _unproved(self, parting: Parting, causes: Sequence[Suspected]) -> Answer:
        proof = (
            "not proved: no setting that differs mends it, and neither does what was put in of the reference"
        )
        if not self._follower.knows_noise and self.asked.reference_there is None:
            proof += f"; {_NO_RULER}"
        sentence = self._suspected or f"First difference: {parting.said}"
        if causes:
            again = [
                one
                for one in self._runs.made_again
                if one.makes_difference and one.module == causes[0].module
            ]
            if again:  # beyond rounding, as the diagnosis has it
                said = f"what {again[0].module} computes in step {parting.step}: {causes[0].said}"
                proof = f"{again[0].said}; whether nothing else differs was not to be shown"
                what = [Cause(said, ())]
                return self._ended("proved", f"Proved: {said}", proof, what, self._call_again(causes))
        return self._ended("unproved", sentence, proof, (), self._call_again(causes))

    def _of_noise(self) -> Answer | None:
        """What is said where the reference does not follow itself to the bit: whether that explains the
        target, and else the search once more, with this as the noise; None: it does follow itself.
        """
        if self._follower.knows_noise:
            return None
        both = [self._runs.folder("reference", "1"), self._again()]
        leaves = first_parting(*both, ignores=DRAWN)
        if leaves is None:
            return None
        if not self._follower.take_noise(both):
            sentence = f"The reference does not repeat itself ({leaves.said}): ask msprobe repeat why"
            return self._ended("unproved", sentence, "not proved: what differs by chance is no noise")
        self._runs.note("reference", (), f"a second time: leaves itself at {leaves.said}; taken as its noise")
        found = self._compared("with_noise", both[0], self._runs.folder("target", "1"))
        return self._following(found) if found.follows else self._searched(found)

    def _again(self) -> Path:
        return self._runs.run("reference", "again", steps=_RECORDED, stop=self.asked.stop)

    def _proved_settings(self, left: _Left) -> tuple[list[Setting], _Left | None]:
        """Settings with which the target follows for longer, each needed, and what is left to be found; None:
        nothing. The search goes on behind each.
        """
        needed: list[Setting] = []
        is_within = False  # with those that are needed it follows already, though not to the bit
        while True:
            some, found = self._next_settings(needed, left)
            if found is None:
                return needed, None if is_within else left
            needed += some
            if found.is_exact or (found.follows and not _is_longer(found, left)):
                return needed, None
            is_within = found.follows
            assert found.parting is not None
            left = _Left(found.parting, found.causes, found.runs)
            self._diagnosis, self._diagnosed_run = found.report or self._diagnosis, found.runs[1]

    def _next_settings(self, needed: list[Setting], left: _Left) -> tuple[Sequence[Setting], Followed | None]:
        """With which, beside those that are needed, the target follows for longer: one, or else the least of
        all that differ.
        """
        known = {one.name for one in needed}
        found = settings_of(left.causes, left.parting.step, left.runs)
        differ = [one for one in found if one.name not in known]

        tried: dict[frozenset[Setting], Followed | None] = {}

        def helps(some: Sequence[Setting]) -> Followed | None:
            key = frozenset(some)
            if key not in tried:
                tried[key] = self._helps([*needed, *some], left)
            return tried[key]

        for setting in differ:
            followed = helps([setting])
            if followed is not None:
                return [setting], followed
        if len(differ) < 2 or helps(differ) is None:
            return [], None
        least = least_of(differ, helps)
        return least, helps(least)

    def _helps(self, settings: Sequence[Setting], left: _Left) -> Followed | None:
        """What comes of it where the target follows for longer with these."""
        followed = self._with(settings, f"behind_{len(settings)}")
        if followed is None or not (followed.follows or _is_longer(followed, left)):
            return None
        return followed

    def _behind(self, parting: Parting, changes: tuple[Change, ...]) -> list[Put]:
        """What can be put in beside the changes of the target, with which it leaves the reference there."""
        self._rounds += 1
        name = f"behind_values_{self._rounds}"
        steps = _RECORDED if parting.step <= _LAST_RECORDED else str(parting.step)
        stop = parting.step + 1
        run = self._runs.tried("target", changes, name=name, steps=steps, stop=stop)
        if run is None:
            return _puts(_Left(parting, [], []))
        reference = self._runs.folder("reference", "1")
        if parting.step > _LAST_RECORDED:
            reference = self._runs.run("reference", name, steps=steps, stop=stop)
        found = self._follower.compared(name, reference, run)
        self._diagnosis, self._diagnosed_run = found.report or self._diagnosis, run
        return _puts(_Left(parting, found.causes, found.runs))

    def _with(self, settings: Sequence[Setting], name: str) -> Followed | None:
        """Whether the target with the values of the reference follows. None: it does not run."""
        changes = tuple(setting.mended() for setting in settings)
        run = self._runs.tried("target", changes, steps=_RECORDED, stop=self.asked.stop)
        if run is None:
            return None
        found = self._follower.compared(name, self._runs.folder("reference", "1"), run)
        said = self._follower.said_of(found), "leaves the reference at"
        self._runs.note_parting("target", changes, None if found.follows else found.parting, *said)
        if found.follows:
            self._mended = found
        return found

    # ---- the answers

    def _of_settings(self, settings: list[Setting]) -> Answer:
        """Proved the other way round, too: the reference with the target's values leaves it; where all that
        differs are these settings, it is the target.
        """
        changes = tuple(setting.broken() for setting in settings)
        mended = " and ".join(setting.mended().said for setting in settings)
        broken = " and ".join(change.said for change in changes)
        followed = self._mended
        assert followed is not None
        reference = followed.runs[0]
        if not followed.is_exact and not self._follower.knows_noise:
            both = [reference, self._again()]
            if self._follower.take_noise(both):
                followed = self._follower.compared("mended", *followed.runs)
        proof = f"with {mended} the target {self._follower.said_of(followed)}"
        steps = "" if followed.is_exact else _RECORDED
        run = self._runs.run("reference", changes=changes, steps=steps, stop=self.asked.stop)
        if followed.is_exact:
            leaves = first_parting(reference, run, ignores=DRAWN)
        else:
            leaves = self._follower.compared("broken", reference, run).leaves
        equals = first_parting(self._runs.folder("target", "1"), run, ignores=DRAWN)
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

    def _of_compiler(self) -> Answer | None:
        """How far torch.compile may go before the target leaves the reference; None: it does so without."""
        reference, last = self._runs.folder("reference", "1"), None
        for backend in BACKENDS[1:]:
            change = Change("compile.backend", backend)
            run = self._runs.tried("target", (change,), stop=self.asked.stop)
            if run is None:
                return None
            leaves = first_parting(reference, run, ignores=DRAWN)
            self._runs.note_parting(
                "target", (change,), leaves, "follows the reference to the bit", "leaves the reference at"
            )
            if leaves is not None:
                break
            last = change
        if last is None or leaves is None:
            return None
        said = f"what torch.compile's {backend} makes of it"
        proof = f"with {last.said} the target follows the reference to the bit"
        proof += f"; with {change.said} it leaves it at step {leaves.step}"
        lines = write_change(self._folder(), [(last, change.value)])
        return self._ended("proved", f"Proved: {said}", proof, [Cause(said, (last.said,))], lines)

    def _of_values(self, proved: Proved, settings: Sequence[Setting]) -> Answer:
        puts = proved.puts
        words = [
            f"the {_put_in(one.name)} of the reference put in at step {one.parting.step}" for one in puts
        ]
        mended = " and ".join([*(one.mended().said for one in settings), *words])
        proof = f"with {mended} the target follows it {proved.words}"
        if proved.leaves is not None:
            broken = " and ".join(one.broken().said for one in settings)
            theirs = "those of the target" if puts else broken
            proof += f"; with {theirs} the reference leaves it at step {proved.leaves.step}"
            proof += f", and is the target {proved.words}" if proved.is_target else ""
        put = {one.name.partition(".")[2] for one in puts}
        again = [one.said for one in self._runs.made_again if one.makes_difference and one.module in put]
        proof += "".join(f"; {one}" for one in again[:1])
        causes = [
            *(Cause(one.said, (one.mended().said,)) for one in settings),
            *(_cause_of(one) for one in puts),
        ]
        what = " and ".join(one.said for one in causes)
        files = self._call_again(puts[0].suspected) if puts else []
        if settings:
            files += write_change(self._folder(), [(one.mended(), one.target) for one in settings])
        return self._ended(*_judged(what, proved.leaves), proof, causes, files)

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
        if causes and self._runs.is_moved:
            proof = f"in the environment of the target: {proof}"
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


def _is_longer(followed: Followed, left: _Left) -> bool:
    return followed.parting is not None and followed.parting.place > left.parting.place


def _judged(what: str, leaves: Parting | None) -> tuple[Status, str]:
    """leaves: of the reference with the same put in; None: it does not change by it."""
    return ("unproved", f"Suspected: {what}") if leaves is None else ("proved", f"Proved: {what}")


def _put_in(name: str) -> str:
    return WORDS.get(name) or f"results and gradients of {name.partition('.')[2]}"


def _puts(left: _Left) -> list[Put]:
    """What of the reference can be put in there, the likeliest first."""
    drawn = bool(random_states_of(left.runs, left.parting)) if left.runs else True
    names = values_of(left.causes, left.parting, drawn=drawn)
    return [Put(name, left.parting, left.causes) for name in names]


def _cause_of(put: Put) -> Cause:
    name, parting = put.name, put.parting
    module = name.removeprefix("transplant.")
    if module != name:
        inside = next(
            (one for one in put.suspected if one.module and f"{one.module}.".startswith(f"{module}.")), None
        )
        said = f"what {module} computes in step {parting.step}"
        return Cause(said if inside is None else f"{said}: {inside.said}", (name,))
    names = f" ({', '.join(parting.names[:3])})" if parting.kind in _KINDS_FED and parting.names else ""
    said = f"the {WORDS[name]} of step {parting.step}{names}"
    found = next((one for one in put.suspected if name in _FED_OF_STAGE.get(one.stage, ())), None)
    return Cause(said if found is None else f"{said}: {found.said}", (name,))
