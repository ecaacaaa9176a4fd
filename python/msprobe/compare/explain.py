# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Why a place is suspect, or is not: the sum that the verdict made of it, from the dumps of an answer."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.json_file import read_object
from msprobe.files.ranges import numbers
from msprobe.files.regular_file import is_there
from msprobe.native import FormatError, InvalidArgument, core
from msprobe.result import Result
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

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
    """`answer`: what `msprobe compare`, `diagnose` or `graph` wrote. `place`: of a record, an item or
    a parameter, or the path of a module. Without `steps` the first step counts in which the place differs.
    Raises InvalidArgument (with the closest names, where nothing of this name differs), FormatError, IoError.
    """
    file, content = _read(answer)
    pairing = {"fuzzy": content["inputs"]["fuzzy"], "data_mapping": content["inputs"]["names"]}
    before: dict[int, StepWalk] = {}
    names: dict[str, None] = {}
    found: list[Explained] = []
    pairs = [one for one in content["pairs"] if not one["debug"]]
    for key, wanted in (("step", steps), ("rank", ranks)):
        there = sorted({one[key] for one in pairs})
        if missing := sorted(set(wanted or ()) - set(there)):
            raise InvalidArgument(f"{answer}: there is no {key} {missing[0]}, only {numbers(key, there)}")
    for one in pairs:
        step, rank = one["step"], one["rank"]
        if ranks is not None and rank not in ranks:
            continue
        if found and steps is None and step > found[-1].step:
            break
        pair = core.open_dump_pair(*_dumps(file, one), **pairing)
        if pair.mode == "real_data":
            pair.measure()
        seen: list[dict[str, Any]] = []
        walk = pair.walk(step=step, rank=rank, before=before.get(rank), places=seen)
        before[rank] = walk
        if steps is not None and step not in steps:
            continue
        here = [*_measured(seen, step, rank), *_without_distance(walk)]
        names.update(dict.fromkeys(one.name for one in here))
        found += [one for one in here if _is_meant(place, one.name)]
    if not found:
        close = difflib.get_close_matches(place, list(names), _CLOSE, 0)
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


def _read(answer: Path) -> tuple[Path, Mapping[str, Any]]:
    """The verdict of the dumps that an answer was made of, and its file."""
    candidates = [answer, answer / "verdict.json", answer / "dump" / "verdict.json"]
    file = next((path for path in candidates if path.is_file()), None)
    if file is None:
        raise InvalidArgument(
            f"{answer}: expected an answer of msprobe compare, diagnose or graph about dumps, with "
            "verdict.json; that of a hunt is in its folder diagnosis"
        )
    content = read_object(str(file), 'an object with "pairs"')
    pairs, inputs = content.get("pairs"), content.get("inputs")
    if not isinstance(pairs, list) or not all(isinstance(one, dict) for one in pairs):
        raise InvalidArgument(
            f"{file}: expected a comparison of dumps, of msprobe compare, diagnose or graph: no other answer "
            "has places; record both runs with msprobe run, and ask msprobe diagnose"
        )
    keys = {"step", "rank", "debug", "files"}
    if not isinstance(inputs, dict) or not {"fuzzy", "names"} <= inputs.keys():
        raise FormatError(f'{file}: expected "inputs" with "fuzzy" and "names": compare the dumps again')
    if not all(keys <= one.keys() for one in pairs):
        raise FormatError(f'{file}: expected "pairs" with {", ".join(sorted(keys))}: compare the dumps again')
    return file, content


def _dumps(file: Path, pair: dict[str, Any]) -> tuple[Path, Path]:
    """What was judged, target and reference."""
    found = Path(pair["files"]["target"]), Path(pair["files"]["reference"])
    for path in found:
        if not is_there(path):
            raise InvalidArgument(
                f"{path}: the dump that {file} was made of is not there; a relative path begins in the "
                "folder in which the command ran"
            )
    return found


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
