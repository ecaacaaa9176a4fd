# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a hunt says: hunt.json, a page, a few lines on the screen."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from msprobe.files.page import badge, bullets, card, scriptless_page, shown
from msprobe.native import __version__
from msprobe.result import Result
from msprobe.terminal.colour import PLAIN, Paint
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Literal

    from msprobe.experiment.digests import Parting
    from msprobe.result import Cell

    Status = Literal["equal", "proved", "unproved"]

FILE = "hunt.json"
FOLDER = "answer"
PAGE = "index.html"

_CODES = {"equal": 0, "proved": 1, "unproved": 3}


@dataclass(frozen=True)
class Experiment:
    """A run with something changed."""

    side: str
    """ "target" or "reference"."""
    changes: tuple[str, ...]
    result: str


@dataclass(frozen=True)
class Cause:
    """Something that differs, and without which the target follows."""

    said: str
    changes: tuple[str, ...]
    """As `msprobe run --set` takes them; of values that were fed in their names."""


@dataclass(frozen=True, repr=False)
class Answer(Result):
    status: Status
    sentence: str
    proof: str
    reference: str
    target: str
    parting: Parting | None = None
    causes: tuple[Cause, ...] = ()
    suspected: str = ""
    """What diagnose names, proved or not."""
    experiments: tuple[Experiment, ...] = ()
    runs: tuple[int, int] = (0, 0)
    """Of the reference, of the target."""
    seconds: float = 0.0
    reproduction: tuple[str, ...] = ()
    """Files for a report, from the folder of the hunt: the lines that mend the target, or a script of the
    call that the diagnosis names.
    """

    @property
    def exit_code(self) -> int:
        return _CODES[self.status]

    def table(self) -> Sequence[dict[str, Cell]]:
        """The experiments."""
        return [
            {"side": one.side, "changed": " ".join(one.changes), "result": one.result}
            for one in self.experiments
        ]

    def json(self) -> str:
        content = {
            "format": 1,
            "msprobe": __version__,
            "status": self.status,
            "sentence": self.sentence,
            "proof": self.proof,
            "reference": self.reference,
            "target": self.target,
            "parting": None if self.parting is None else asdict(self.parting),
            "causes": [asdict(one) for one in self.causes],
            "suspected": self.suspected,
            "experiments": [asdict(one) for one in self.experiments],
            "runs": {"reference": self.runs[0], "target": self.runs[1]},
            "seconds": round(self.seconds, 1),
            "reproduction": list(self.reproduction),
        }
        return json.dumps(content, indent=1) + "\n"


def console_text(answer: Answer, output: Path, paint: Paint = PLAIN) -> str:
    lines = [paint.answer(printable(answer.sentence), good=answer.status == "equal")]
    lines += [f"  {printable(text)}" for text in (answer.proof,) if text]
    lines += [f"  {_line(one)}" for one in answer.experiments]
    lines += [f"  for a report: {printable(str(output / one))}" for one in answer.reproduction]
    lines.append(
        f"  {answer.runs[0]} runs of the reference, {answer.runs[1]} of the target, {answer.seconds:.0f} s"
    )
    return "\n".join([*lines, f"  {printable(str(output / FOLDER / PAGE))}"]) + "\n"


def page_html(answer: Answer, diagnosis: str) -> str:
    """diagnosis: the address of the page of the last diagnosis; empty: there is none."""
    word = {"equal": "agree", "proved": "differ", "unproved": "incomplete"}[answer.status]
    head = [f"<p>{badge(answer.status, word)} {shown(answer.sentence)}</p>"]
    head += [f"<p>{shown(answer.proof)}</p>"] if answer.proof else []
    head += [f'<p><a href="{shown(diagnosis)}">What differs, part by part</a></p>'] if diagnosis else []
    files = [os.path.basename(one) for one in answer.reproduction]
    links = [f'<p><a href="{shown(one)}">{shown(one)}</a></p>' for one in files]
    commands = [f"reference: {answer.reference}", f"target: {answer.target}"]
    cost = [
        f"{answer.runs[0]} runs of the reference, {answer.runs[1]} of the target",
        f"{answer.seconds:.0f} s",
    ]
    return scriptless_page(
        "msprobe hunt",
        [
            card("Answer", head),
            card("Cause", bullets(f"{one.said} ({' '.join(one.changes)})" for one in answer.causes)),
            card("Experiments", bullets(map(_line, answer.experiments))),
            *([card("For a report", links)] if links else []),
            card("Commands", bullets(commands)),
            card("Cost", bullets(cost)),
        ],
        "",
    )


def _line(one: Experiment) -> str:
    changed = f" with {' '.join(one.changes)}" if one.changes else ""
    return printable(f"the {one.side}{changed}: {one.result}")
