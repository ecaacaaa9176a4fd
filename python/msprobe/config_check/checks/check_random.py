# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Check of the random operations before the first step: how many, and from where."""

from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.config_check.checks.check_result import ERROR, WARNING, CheckResult, Difference, shown
from msprobe.config_check.checks.devices import devices_of
from msprobe.config_check.collecting.random_functions import KNOWN_TO_THE_EXISTING_TOOL

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.config_check.packs.pack_reader import Pack

COLUMNS = ("op", "rank", "bench_stack", "cmp_stack", "bench_count", "cmp_count", "check_result")
SEED_COLUMNS = ("kind", "name", "rank", "bench_value", "cmp_value", "level")
NO_MATCH = "no match stack"

_LEAST_SCORE = 0.8
_MOST_NAMED = 6
_SEED = "seed"
_STATE = "state at the first step"
_MOVED = "called from another place"
_SEEDED_BY = {"python": "random.seed", "numpy": "np.random.seed"}
_FRAME = re.compile(r"File (?P<file>.*?), line [0-9]+, in (?P<function>.*?), (?P<code>.*)\Z", re.DOTALL)
_PLACE = re.compile(r"File (?:.*/)?(?P<file>.*?), line (?P<line>[0-9]+), in (?P<function>.*?),")

_Call = tuple[tuple[str, ...], int]  # stack, count


@dataclass
class _Operation:
    """An operation that is not called alike, over all ranks."""

    reference: int = 0  # calls
    target: int = 0
    places: int = 0  # of the code, that call it another number of times
    first: str = ""  # of these places
    changed: bool = False  # one of them calls it on both sides

    @property
    def moved(self) -> bool:
        """As many calls, but from another place: a file or function that got another name, another launcher
        or another release of torch does that, and the numbers stay the same.
        """
        return self.reference == self.target and not self.changed


def check_random(reference: Pack, target: Pack) -> CheckResult | None:
    """None when a side has none."""
    sides = reference.files("random"), target.files("random")
    if not sides[0] or not sides[1]:
        return None
    result = CheckResult("random", COLUMNS)
    covered: Callable[[str], bool] = lambda _: True  # noqa: E731
    if reference.is_ours != target.is_ours:
        covered = KNOWN_TO_THE_EXISTING_TOOL.__contains__
        result.notes.append("random: only the operations that mindstudio-probe knows were compared")
    devices = devices_of(reference, target)
    differing: dict[str, _Operation] = {}
    for place in sorted(sides[0].keys() & sides[1].keys()):
        trees = [side.json(files[place]) for side, files in zip((reference, target), sides)]
        if trees[0] is None or trees[1] is None:
            result.passed = False  # a problem of the pack is noted
            continue
        for op in dict.fromkeys([*trees[0], *trees[1]]):
            if covered(op) and devices.act(op):
                calls = _calls(trees[0].get(op)), _calls(trees[1].get(op))
                found = _compare_op(result, op, place[1], *calls)
                if found.places:
                    known = differing.setdefault(op, _Operation())
                    known.reference += found.reference
                    known.target += found.target
                    known.places += found.places
                    known.first = known.first or found.first
                    known.changed |= found.changed or found.reference != found.target
    moved = {op: one for op, one in differing.items() if one.moved}
    changed = {op: one for op, one in differing.items() if not one.moved}
    if changed:
        name = "seeding" if any("seed" in op for op in changed) else "random"
        result.fail(_difference(name, changed, ERROR))
    if moved:
        result.differences.append(_difference(_MOVED, moved, WARNING))
    return result


def _difference(name: str, differing: dict[str, _Operation], level: str) -> Difference:
    """All operations as one: a program that is another one differs in many."""
    texts = [
        f"{op} {one.reference} -> {one.target} calls "
        f"({one.places} place{'s' if one.places > 1 else ''}: {one.first})"
        for op, one in differing.items()
    ]
    more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return Difference(
        "random",
        name,
        "",
        "",
        level,
        count=len(differing),
        detail=", ".join(texts[:_MOST_NAMED]) + more,
    )


def _calls(entries: object) -> list[_Call]:
    calls = []
    for entry in entries if isinstance(entries, list) else []:
        stack, count = (entry.get("stack"), entry.get("count")) if isinstance(entry, dict) else (None, None)
        if isinstance(stack, list) and isinstance(count, int):
            calls.append((tuple(map(str, stack)), count))
    return calls


def _compare_op(
    result: CheckResult, op: str, rank: int, reference: list[_Call], target: list[_Call]
) -> _Operation:
    """Adds the rows of an operation."""
    left = list(target)
    found = _Operation(sum(count for _, count in reference), sum(count for _, count in target))
    differing: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    for stack, count in reference:
        match = next((call for call in left if _is_same_stack(stack, call[0])), None)
        if match is not None:
            left.remove(match)
        other = match or ((NO_MATCH,), 0)
        equal = match is not None and count == match[1]
        result.rows.append([op, rank, "\n".join(stack), "\n".join(other[0]), count, other[1], equal])
        found.places += not equal
        found.changed |= match is not None and not equal
        if not equal:
            differing.append((stack, other[0]))
    for stack, count in left:
        result.rows.append([op, rank, NO_MATCH, "\n".join(stack), 0, count, False])
    found.places += len(left)
    if differing or left:
        here, there = differing[0] if differing else ((), left[0][0])
        found.first = _first_place(here, left[0][0] if there == (NO_MATCH,) and left else there)
    return found


def _first_place(reference: tuple[str, ...], target: tuple[str, ...]) -> str:
    """The innermost frames that are not the same place, as `train.py:3 in main -> model.py:8 in build`; of
    one stack alone, or of the same one twice, its innermost frame.
    """
    inner = zip(reversed(reference), reversed(target))
    pair = next((pair for pair in inner if _score(*pair) < _LEAST_SCORE), (*reference[-1:], *target[-1:]))
    matches = filter(None, map(_PLACE.match, pair))
    texts = dict.fromkeys(f"{one['file']}:{one['line']} in {one['function']}" for one in matches)
    return " -> ".join(texts) or "of no known line"


def _is_same_stack(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    return len(left) == len(right) and all(_score(a, b) >= _LEAST_SCORE for a, b in zip(left, right))


@functools.lru_cache(maxsize=100_000)
def _score(left: str, right: str) -> float:
    """How much two frames are the same place of the program; lines may have moved."""
    if left == right:
        return 1.0
    frames = _FRAME.match(left), _FRAME.match(right)
    if frames[0] is None or frames[1] is None:
        return 0.0
    (file, function, code), (other_file, other_function, other_code) = (
        frames[0].groups(),
        frames[1].groups(),
    )
    same_file = file.rpartition("/")[2] == other_file.rpartition("/")[2]
    score = int(same_file) + int(function == other_function)
    if score + 1 < 3 * _LEAST_SCORE:
        return score / 3
    return (score + difflib.SequenceMatcher(None, code, other_code).ratio()) / 3


# ---- seeds and states of the generators, which only packs of msprobe have


def check_seeds(reference: Pack, target: Pack) -> CheckResult | None:
    """None when a side has none."""
    sides = reference.files("seeds"), target.files("seeds")
    if not sides[0] or not sides[1]:
        return None
    result = CheckResult("seeds", SEED_COLUMNS)
    devices = devices_of(reference, target)
    for place in sorted(sides[0].keys() & sides[1].keys()):
        reference_state, target_state = (
            side.json(files[place]) or {} for side, files in zip((reference, target), sides)
        )
        calls = tuple(
            [call for call in _seed_calls(state.get("calls")) if devices.act(call[0])]
            for state in (reference_state, target_state)
        )
        seeded = {call for call, _ in calls[0]} & {call for call, _ in calls[1]}
        _compare_seeds(result, place[1], *calls)
        _compare_states(
            result,
            place[1],
            _texts(reference_state.get("states")),
            _texts(target_state.get("states")),
            seeded,
        )
    for kind, level in ((_SEED, ERROR), (_STATE, ERROR), (_STATE, WARNING)):
        rows = [row for row in result.rows if row[0] == kind and row[-1] == level]
        if rows:
            texts = [f"{row[1]} {shown(row[3])} -> {shown(row[4])} (rank {row[2]})" for row in rows]
            more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
            detail = ", ".join(texts[:_MOST_NAMED]) + more
            name = kind if level == ERROR else f"{kind} of generators that were not seeded"
            difference = Difference("seeds", name, "", "", level, count=len(rows), detail=detail)
            if level == ERROR:
                result.fail(difference)
            else:
                result.differences.append(difference)
    return result


def _seed_calls(entries: object) -> list[tuple[str, str]]:
    return [
        (str(entry.get("call")), str(entry.get("arguments")))
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict)
    ]


def _texts(tree: object) -> dict[str, str]:
    return {name: shown(value) for name, value in tree.items()} if isinstance(tree, dict) else {}


def _compare_seeds(
    result: CheckResult, rank: int, reference: list[tuple[str, str]], target: list[tuple[str, str]]
) -> None:
    """What each function was called with, in order. The last call counts most: it is what training starts
    with.
    """
    for name in dict.fromkeys([call for call, _ in (*reference, *target)]):
        values = [
            ", ".join(arguments for call, arguments in side if call == name) for side in (reference, target)
        ]
        if values[0] != values[1]:
            result.rows.append([_SEED, name, rank, values[0] or None, values[1] or None, ERROR])


def _compare_states(
    result: CheckResult, rank: int, reference: dict[str, str], target: dict[str, str], seeded: set[str]
) -> None:
    """A generator that the program does not seed begins elsewhere in every run, but torch's."""
    for name in reference:
        if name in target and reference[name] != target[name]:
            chance = _SEEDED_BY.get(name)
            level = ERROR if chance is None or chance in seeded else WARNING
            result.rows.append([_STATE, name, rank, reference[name], target[name], level])
