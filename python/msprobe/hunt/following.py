# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a run follows the reference: to the bit, or else as the verdict of `msprobe diagnose` has it, by no
more than rounding explains, or than the reference is apart from itself.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msprobe.experiment.digests import drawn_apart, first_parting, noise_of_losses
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.noise_answer import REPEATED, as_answer, with_repeated_runs
from msprobe.native import InvalidArgument, NothingToCompare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from msprobe.diagnose.answer import Answer as Diagnosis
    from msprobe.diagnose.cause import Cause as Suspected
    from msprobe.experiment.digests import Parting

DRAWN = ("random generators",)
"""The state of a generator that nobody draws from is nothing of the training: what is drawn shows."""
_KINDS = {"data": "inputs", "gradients": "gradients", "optimizer": "optimizer"}
"""By the stage of a cause: what it shows in first; else the loss."""
_BEGINNINGS = ("initial weights", "inputs", "steps")


@dataclass(frozen=True)
class Followed:
    """What came of a comparison."""

    parting: Parting | None
    """None: equal to the bit."""
    diagnosis: Diagnosis | None = None
    """Of runs that are not; None: they have nothing in common."""
    report: Path | None = None
    """Its folder."""
    runs: tuple[Path, ...] = ()
    """That were compared: the reference, the other one."""

    @property
    def is_exact(self) -> bool:
        return self.parting is None

    @property
    def follows(self) -> bool:
        return self.parting is None or (self.diagnosis is not None and self.diagnosis.follows)

    @property
    def causes(self) -> list[Suspected]:
        if self.diagnosis is None:
            return []
        first = self.diagnosis.cause
        return [*([first] if first is not None else []), *self.diagnosis.others]

    @property
    def leaves(self) -> Parting | None:
        """Where; None: it follows."""
        return None if self.follows else self.parting


def _beyond(parting: Parting, diagnosis: Diagnosis | None) -> Parting:
    """Where bits part by noise: where the cause has it, or else where the losses part beyond the noise."""
    if diagnosis is None:
        return parting
    cause = diagnosis.cause
    if cause is not None:
        step = parting.step if cause.step is None else cause.step
        kind = "gradients" if ".backward" in cause.record else _KINDS.get(cause.stage, "loss")
        return replace(parting, step=step, kind=kind, names=())
    curves = [part.curves for part in diagnosis.parts if part.curves is not None]
    steps = [one.first_beyond for one in curves if one.first_beyond is not None]
    return replace(parting, step=steps[0], kind="loss", names=()) if steps else parting


class Follower:
    """Compares runs of a hunt."""

    def __init__(self, output: Path, noise: Sequence[Path], said: Callable[[str], None]) -> None:
        """noise: what `msprobe repeat` or `perturb` left of the reference. Reports go below `output`."""
        self._output = output
        self._said = said
        self._noise = with_repeated_runs(noise)

    @property
    def words(self) -> str:
        """How what is not equal to the bit follows."""
        return "within the noise of the reference" if self._noise else "within rounding"

    @property
    def knows_noise(self) -> bool:
        return bool(self._noise)

    def compared(self, name: str, reference: Path, run: Path) -> Followed:
        """name: of the report."""
        parting = first_parting(reference, run, ignores=DRAWN)
        if parting is None:
            return Followed(None, runs=(reference, run))
        diagnosis, report = self._diagnosed(name, reference, run)
        if self._noise:
            parting = _beyond(parting, diagnosis)
        return Followed(parting, diagnosis, report, (reference, run))

    def take_noise(self, runs: Sequence[Path]) -> bool:
        """The noise of the reference, of two runs of it. False: they are equal to the bit, or do not even
        begin alike or draw other random numbers, and what they differ by is no noise.
        """
        parting = first_parting(runs[0], runs[1], ignores=DRAWN)
        if parting is None or parting.kind in _BEGINNINGS or drawn_apart(runs, parting):
            return False
        file = make_directory(self._output / "noise") / REPEATED
        write_text(file, json.dumps(as_answer(noise_of_losses(runs)), indent=1) + "\n")
        self._noise = [file, runs[1]]
        return True

    def said_of(self, followed: Followed) -> str:
        return f"follows the reference {'to the bit' if followed.is_exact else self.words}"

    def _diagnosed(self, name: str, reference: Path, run: Path) -> tuple[Diagnosis | None, Path | None]:
        from msprobe.diagnose.command import diagnose_runs

        output = self._output / name
        shutil.rmtree(output, ignore_errors=True)
        options = {"graph": False, "force": True, "shows_progress": False}
        try:
            answer = diagnose_runs(reference, run, output, noise=self._noise, **options)  # type: ignore[arg-type]
        except (NothingToCompare, InvalidArgument):
            return None, None
        self._said(f"diagnose: {answer.sentence}")
        return answer, output
