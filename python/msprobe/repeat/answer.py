# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What `msprobe repeat` says: repeat.json, and a few lines on the screen."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from msprobe.files.noise_answer import REPEATED, as_answer
from msprobe.native import __version__
from msprobe.result import Result
from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.experiment.digests import Parting
    from msprobe.experiment.plan import Change
    from msprobe.repeat.first_call import FirstCall
    from msprobe.repeat.suspects import Suspect
    from msprobe.result import Cell

FILE = REPEATED


@dataclass(frozen=True)
class Trial:
    """Runs with something changed."""

    changes: tuple[Change, ...]
    repeats: bool
    said: str
    """Where they parted, or why they failed."""


@dataclass(frozen=True, repr=False)
class Answer(Result):
    command: str
    output: Path
    steps: int
    runs: int
    """How many were made in all."""
    parting: Parting | None = None
    """None: it repeats itself."""
    call: FirstCall | None = None
    tags: tuple[str, ...] = ()
    noise: tuple[tuple[int, float], ...] = ()
    """Step, relative difference of the losses."""
    proved: tuple[Suspect, ...] = ()
    """With all of these it repeats itself."""
    trials: tuple[Trial, ...] = ()

    @property
    def sentence(self) -> str:
        if self.parting is None:
            return f"The training repeats itself: equal to the bit in {_steps(self.steps)}"
        if self.parting.kind in ("initial weights", "inputs", "steps") or self.call is None:
            return f"The training does not repeat itself: first {self.parting.said}"
        return f"The training does not repeat itself: step {self.parting.step}, {self.call.said}"

    @property
    def reason(self) -> str:
        """Empty: it repeats itself."""
        if self.parting is None:
            return ""
        if self.proved:
            said = " and ".join(f"{one.what}" + (f" ({one.at})" if one.at else "") for one in self.proved)
            return f"the reason is {said}"
        tried = ", ".join(sorted({change.said for trial in self.trials for change in trial.changes}))
        return f"no setting made it repeat; tried: {tried}" if tried else "nothing could be tried"

    def table(self) -> Sequence[dict[str, Cell]]:
        """The trials."""
        return [
            {
                "changed": " ".join(change.said for change in trial.changes),
                "repeats": trial.repeats,
                "said": trial.said,
            }
            for trial in self.trials
        ]

    def json(self) -> str:
        content = {
            **as_answer(self.noise),
            "msprobe": __version__,
            "command": self.command,
            "repeats": self.parting is None,
            "sentence": self.sentence,
            "reason": self.reason,
            "steps": self.steps,
            "runs": self.runs,
            "parting": None if self.parting is None else asdict(self.parting),
            "call": None if self.call is None else asdict(self.call),
            "tags": list(self.tags),
            "proved": [asdict(one) for one in self.proved],
            "trials": [asdict(trial) for trial in self.trials],
        }
        return json.dumps(content, indent=1) + "\n"


def console_text(answer: Answer, paint: Paint = PLAIN) -> str:
    lines = [paint.answer(printable(answer.sentence), good=answer.parting is None)]
    if answer.parting is not None:
        lines.append(f"  {printable(answer.reason)}")
        if answer.tags:
            lines.append(
                f"  torch says of {answer.call.operator if answer.call else ''}: {', '.join(answer.tags)}"
            )
        if answer.proved:
            settings = "; ".join(one.setting for one in answer.proved)
            changes = " ".join(one.change.said for one in answer.proved)
            lines.append(f"  to have it repeat: {printable(settings)}")
            lines.append(f"  proved: with {printable(changes)} the runs are equal to the bit")
        lines += _noise_lines(answer)
        output = shlex.quote(str(answer.output))
        lines.append(f"  as noise of a comparison: --noise {printable(output)}")
    lines.append(f"  {answer.runs} runs, {_steps(answer.steps)}: {printable(str(answer.output / FILE))}")
    return "\n".join(lines) + "\n"


def _noise_lines(answer: Answer) -> list[str]:
    known = [(step, value) for step, value in answer.noise if value > 0]
    if not known:
        return ["  the losses are equal in all steps"]
    (first, at_first), (last, at_last) = known[0], known[-1]
    text = f"  the losses differ by {at_first:.1e} at step {first}"
    return [text + (f", by {at_last:.1e} at step {last}" if last != first else "")]


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"
