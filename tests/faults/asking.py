# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Asks the verdict about pairs of dumps, in this process: each dump is read once, however often it is asked.
What the command makes of an answer is tested by test_faces.py.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judging import Answer, culprit_of
from recordings import without_diagnosis

DUMPS = ("dump.json", "step.zip")

Model = Mapping[str, float]
"""Numbers and rules of the verdict that are other ones: by name, 0 switches a rule off."""


@dataclass(frozen=True)
class Question:
    """A pair of dumps, and what is asked of it."""

    name: str
    """Table, column and pair."""
    golden: Path
    target: Path
    outcome: Callable[[Answer], str]
    """Of FAULT_OUTCOMES, or of HEALTHY_OUTCOMES."""
    is_bare: bool = False
    """Without `diagnosis.json`: what the configuration of mindstudio-probe records."""

    def answers(self, models: Iterable[Model] = ({},)) -> list[Answer]:
        """Under each of these models. An error of msprobe is an answer, too."""
        begin = time.process_time()
        try:
            dumps = _Dumps(self.golden, self.target, is_bare=self.is_bare)
        except Exception as error:
            return [Answer(fault=repr(error)) for _ in models]
        reading = time.process_time() - begin
        return [dumps.judged(model, reading) for model in models]


class _Dumps:
    def __init__(self, golden: Path, target: Path, *, is_bare: bool) -> None:
        from msprobe import _core

        with tempfile.TemporaryDirectory() as folder:
            sides = [golden, target]
            if is_bare:
                sides = [without_diagnosis(dump, Path(folder, side)) for dump, side in zip(sides, ("a", "b"))]
            theirs, ours = map(by_place, sides)
            self.is_whole = theirs.keys() == ours.keys()
            self.pairs = [
                (*place, _core.open_dump_pair(ours[place], theirs[place], threads=1))
                for place in sorted(theirs.keys() & ours.keys())
            ]

    def judged(self, model: Model, seconds: float) -> Answer:
        from msprobe import _core

        begin = time.process_time()
        changes: dict[str, Any] = {"model": model} if model else {}
        walks: list[Any] = []
        last: dict[int, Any] = {}
        try:
            for step, rank, pair in self.pairs:
                last[rank] = pair.walk(step=step, rank=rank, before=last.get(rank), threads=1, **changes)
                walks.append(last[rank])
            verdict = _core.judge(walks, **changes)
        except Exception as error:
            return Answer(fault=repr(error))
        status = verdict.status if self.is_whole or verdict.status == "differ" else "incomplete"
        culprits = tuple(culprit_of(one) for one in verdict.culprits)
        return Answer(status, culprits, seconds=seconds + time.process_time() - begin)


def by_place(folder: Path) -> dict[tuple[int, int], Path]:
    """dump.json by step and rank, which may be in a packed step."""
    found = {}
    for path in sorted(one.with_name("dump.json") for one in folder.rglob("*") if one.name in DUMPS):
        step, rank = (
            next((int(one.name[4:]) for one in path.parents if re.fullmatch(rf"{word}\d+", one.name)), 0)
            for word in ("step", "rank")
        )
        found[step, rank] = path
    if not found:
        raise ValueError(f"{folder}: no dump")
    return found
