# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Why a place is suspect, or is not: the sum that the verdict made of it, from the dumps of an answer."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.compare.inputs import Paths, find_pairs
from msprobe.files.json_file import read_object
from msprobe.native import FormatError, InvalidArgument, core
from msprobe.result import Result
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from msprobe._core import StepWalk
    from msprobe.result import Cell

_MOST = 20
_CLOSE = 5


@dataclass(frozen=True)
class Explained:
    """One place of one step and rank."""

    step: int
    rank: int
    name: str
    excess: float
    """1 and more is suspect."""
    text: str
    """The sum, in lines; of what has no distance what is said of it."""
    sum: dict[str, Any]
    """Empty: it has no distance."""

    @property
    def is_suspect(self) -> bool:
        return self.excess >= 1


@dataclass(frozen=True, repr=False)
class Explanation(Result):
    """What `msprobe explain` says."""

    places: tuple[Explained, ...]
    more: int
    """Places that are not shown."""

    @property
    def sentence(self) -> str:
        suspects = sum(place.is_suspect for place in self.places)
        more = f", {self.more} more are not shown" if self.more else ""
        return f"{len(self.places)} places, {suspects} of them suspect{more}"

    def table(self) -> Sequence[dict[str, Cell]]:
        return [
            {"step": place.step, "rank": place.rank, "name": place.name, "excess": place.excess}
            for place in self.places
        ]


def explain(
    answer: Path,
    place: str,
    *,
    steps: Collection[int] | None = None,
    ranks: Collection[int] | None = None,
) -> Explanation:
    """`answer`: what `msprobe compare` or `msprobe diagnose` wrote. `place`: of a record, an item or a
    parameter, or the path of a module. Without `steps` the first step counts in which the place differs.
    Raises InvalidArgument (with the closest names, where nothing of this name differs), FormatError, IoError.
    """
    paths = _paths_of(answer)
    before: dict[int, StepWalk] = {}
    names: dict[str, None] = {}
    found: list[Explained] = []
    for files in find_pairs(paths, ranks=ranks).pairs:
        if files.target.name != "dump.json" or (found and steps is None and files.step > found[-1].step):
            continue
        pair = core.open_dump_pair(files.target, files.reference)
        if pair.mode == "real_data":
            pair.measure()
        seen: list[dict[str, Any]] = []
        walk = pair.walk(step=files.step, rank=files.rank, before=before.get(files.rank), places=seen)
        before[files.rank] = walk
        if steps is not None and files.step not in steps:
            continue
        here = [*_measured(seen, files.step, files.rank), *_without_distance(walk)]
        names.update(dict.fromkeys(one.name for one in here))
        found += [one for one in here if _is_meant(place, one.name)]
    if not found:
        close = difflib.get_close_matches(place, list(names), _CLOSE, 0.3)
        what = f"; the closest names: {', '.join(close)}" if close else ""
        raise InvalidArgument(f"{printable(place)}: no place of this name differs{printable(what)}")
    return Explanation(tuple(found[:_MOST]), max(0, len(found) - _MOST))


def _measured(seen: list[dict[str, Any]], step: int, rank: int) -> list[Explained]:
    return [Explained(step, rank, one["name"], one["excess"], one["text"], one["sum"]) for one in seen]


def _without_distance(walk: StepWalk) -> list[Explained]:
    """Settings, arguments and calls of one run: what comes of them decides."""
    return [
        Explained(walk.step, walk.rank, one.name, _effect(one.effect), _said(one.reason, one.effect), {})
        for one in walk.findings
        if not one.sum["rule"]
    ]


def _effect(effect: float | None) -> float:
    return float("nan") if effect is None else effect


def _said(reason: str, effect: float | None) -> str:
    if effect is None:
        return f"{reason}\nIt has no distance, and what comes of it is not seen."
    if effect == float("inf"):
        return f"{reason}\nIt has no distance; it counts by itself."
    return (
        f"{reason}\nA setting, argument or call has no distance. That of the first result behind it is "
        f"{effect:.2g} times the smallest that counts as its consequence; it is suspect from 1 on."
    )


def _is_meant(place: str, name: str) -> bool:
    """The name itself, its record, or a part of its path."""
    return name == place or name.startswith(f"{place}.") or f".{place}." in f".{name}."


def _paths_of(answer: Path) -> Paths:
    """The dumps that an answer was made of."""
    candidates = [answer, answer / "verdict.json", answer / "dump" / "verdict.json"]
    file = next((path for path in candidates if path.is_file()), None)
    if file is None:
        raise InvalidArgument(
            f"{answer}: expected a folder of msprobe compare or diagnose, with verdict.json"
        )
    content = read_object(str(file), 'an object with "inputs"')
    inputs = content.get("inputs")
    sides = [inputs.get(side) if isinstance(inputs, dict) else None for side in ("target", "reference")]
    if not all(isinstance(side, str) for side in sides):
        raise FormatError(f'{file}: expected "inputs" with "target" and "reference"')
    target, reference = (Path(str(side)) for side in sides)
    for path in (target, reference):
        if not path.exists():
            raise InvalidArgument(
                f"{path}: the dump that {file} was made of is not there; a relative path begins in the "
                "folder in which the command ran"
            )
    offset = inputs.get("offset") if isinstance(inputs, dict) else None
    return Paths(target, reference, offset=offset if isinstance(offset, int) else None)


def as_json(result: Explanation) -> str:
    from msprobe.files.page import strict_json

    places = [
        {
            "step": one.step,
            "rank": one.rank,
            "name": one.name,
            "excess": one.excess,
            "sum": one.sum,
            "text": one.text,
        }
        for one in result.places
    ]
    return json.dumps(json.loads(strict_json({"places": places, "more": result.more})), indent=1) + "\n"
