# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What `msprobe resume` says: resume.json, and a few lines on the screen."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from msprobe.native import __version__
from msprobe.result import Result
from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.experiment.digests import Parting
    from msprobe.result import Cell

FILE = "resume.json"

PARTS = {
    "weights": "weights or buffers of the model",
    "random": "states of random generators",
    "inputs": "data: the place in the data, or the epoch of the sampler",
    "optimizer": "state or settings of the optimizer, with what a scheduler sets",
}
"""What a resume has to restore, by the name of what is fed in."""


@dataclass(frozen=True)
class Trial:
    """The resumed run with these parts of the straight one put in."""

    restored: tuple[str, ...]
    follows: bool
    said: str


@dataclass(frozen=True, repr=False)
class Answer(Result):
    straight: str
    resumed: str
    begins_at: int | None
    """The step of the straight run at which the resumed one begins; None: its weights are of none."""
    ignored: bool = False
    """The resumed run begins with the first weights of the straight one."""
    parting: Parting | None = None
    """Where the resumed run leaves the straight one; None: it does not."""
    steps: int = 0
    """That were compared behind the resume."""
    missing: tuple[str, ...] = ()
    """Out of PARTS: what was not restored, proved by restoring it."""
    trials: tuple[Trial, ...] = ()
    checkpoint: str = ""

    @property
    def follows(self) -> bool:
        return self.parting is None and not self.ignored

    @property
    def sentence(self) -> str:
        if self.ignored:
            return "The resume ignores the checkpoint: the run begins with the weights of the first step"
        if self.parting is None:
            count = f"{self.steps} step{'' if self.steps == 1 else 's'}"
            return f"The resumed training goes on as if never stopped: equal to the bit in {count}"
        if self.missing:
            return f"Not restored: {'; '.join(PARTS[one] for one in self.missing)}"
        return f"The resumed training leaves the straight one: {self.parting.said}"

    @property
    def proof(self) -> str:
        if self.missing:
            names = " and ".join(self.missing)
            return f"proved: with {names} of the straight run put in, the resumed one follows"
        if self.parting is not None and self.trials:
            return "not proved: it leaves it with weights, random states, data and optimizer restored, too"
        return ""

    def table(self) -> Sequence[dict[str, Cell]]:
        """The trials."""
        return [
            {"restored": " ".join(one.restored), "follows": one.follows, "said": one.said}
            for one in self.trials
        ]

    def json(self) -> str:
        content = {
            "format": 1,
            "msprobe": __version__,
            "sentence": self.sentence,
            "proof": self.proof,
            "follows": self.follows,
            "straight": self.straight,
            "resumed": self.resumed,
            "checkpoint": self.checkpoint,
            "begins_at": self.begins_at,
            "ignored": self.ignored,
            "parting": None if self.parting is None else asdict(self.parting),
            "steps": self.steps,
            "missing": list(self.missing),
            "trials": [asdict(one) for one in self.trials],
        }
        return json.dumps(content, indent=1) + "\n"


def console_text(answer: Answer, output: Path, paint: Paint = PLAIN) -> str:
    lines = [paint.answer(printable(answer.sentence), good=answer.follows)]
    if answer.parting is not None and answer.missing:
        lines.append(f"  without it the runs diverge at {printable(answer.parting.said)}")
    lines += [f"  {printable(answer.proof)}"] if answer.proof else []
    if answer.begins_at is not None and not answer.ignored:
        lines.append(
            f"  resumed at step {answer.begins_at}: {printable(answer.checkpoint or answer.resumed)}"
        )
    return "\n".join([*lines, f"  {printable(str(output / FILE))}"]) + "\n"
