# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What `msprobe bisect` says: bisect.json, and a few lines on the screen."""

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
    from typing import Literal

    from msprobe.result import Cell

    Status = Literal["passes", "found", "not found", "out of runs"]

FILE = "bisect.json"

_CODES = {"passes": 0, "found": 1, "not found": 3, "out of runs": 3}


@dataclass(frozen=True)
class Trial:
    """A run with these changes, and what the check said of it."""

    changes: tuple[str, ...]
    passes: bool
    said: str = ""
    """Why there is no result of the check."""


@dataclass(frozen=True, repr=False)
class Answer(Result):
    status: Status
    command: str
    check: str
    changes: tuple[str, ...] = ()
    """With which the check passes; without each of them it does not."""
    first: int | None = None
    """The latest step from which on they have to hold; None: it was not asked for."""
    trials: tuple[Trial, ...] = ()

    @property
    def exit_code(self) -> int:
        return _CODES[self.status]

    @property
    def sentence(self) -> str:
        if self.status == "passes":
            return "The check passes without any change"
        if self.status == "not found":
            return "The check fails with all changes together, too"
        if self.status == "out of runs":
            known = f"; it passes with {' '.join(self.changes)}" if self.changes else ""
            return f"The runs are spent (--max-runs){known}"
        since = "" if self.first is None else f", from step {self.first} on at the latest"
        return f"The check passes with {' '.join(self.changes)}{since}, and fails without"

    def table(self) -> Sequence[dict[str, Cell]]:
        """The trials."""
        return [
            {"changed": " ".join(one.changes), "passes": one.passes, "said": one.said} for one in self.trials
        ]

    def json(self) -> str:
        content = {
            "format": 1,
            "msprobe": __version__,
            "status": self.status,
            "sentence": self.sentence,
            "command": self.command,
            "check": self.check,
            "changes": list(self.changes),
            "first": self.first,
            "trials": [asdict(one) for one in self.trials],
        }
        return json.dumps(content, indent=1) + "\n"


def console_text(answer: Answer, output: Path, paint: Paint = PLAIN) -> str:
    lines = [paint.answer(printable(answer.sentence), good=answer.status == "passes")]
    for one in answer.trials:
        result = "passes" if one.passes else "fails"
        why = f" ({one.said})" if one.said else ""
        lines.append(
            f"  {result} with {printable(' '.join(one.changes) or 'nothing changed')}{printable(why)}"
        )
    return "\n".join([*lines, f"  {len(answer.trials)} runs: {printable(str(output / FILE))}"]) + "\n"
