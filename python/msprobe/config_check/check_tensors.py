# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of the first inputs and of the weights, step by step and rank by rank."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.config_check.check_result import Cell, CheckResult, Difference, sheet_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msprobe.config_check.pack_reader import Pack

STATISTICS = ("max", "min", "mean", "norm")
_STATISTIC_KEYS = set(STATISTICS)
_DIFFERENCES = tuple(f"{name}_relative_diff" for name in STATISTICS)
DATASET_COLUMNS = ("step", "rank", "tag", "equal", *_DIFFERENCES)
WEIGHTS_COLUMNS = ("step", "rank", "weight_name", "equal", *_DIFFERENCES)

ONLY_BENCH = "only bench have"
ONLY_CMP = "only cmp have"

_DEEPEST = 64
# Of mean and norm, when the two packs were made by different tools: their sums run in different orders, the
# existing tool's in float32, whose norm of millions of elements is off by 1e-4.
_OTHER_TOOL = 1e-3
_EXACT_OF_ANY_TOOL = 2  # max and min

_NO_DIFFERENCES: tuple[Cell, ...] = (None, None, None, None)
_Place = tuple[int, int]  # step and rank


def check_dataset(bench: Pack, cmp: Pack) -> CheckResult | None:
    """None when a side has no inputs."""
    return _Check("dataset", DATASET_COLUMNS, bench, cmp, _dataset_leaves).run()


def check_weights(bench: Pack, cmp: Pack) -> CheckResult | None:
    """None when a side has no weights."""
    return _Check("weights", WEIGHTS_COLUMNS, bench, cmp, _weight_leaves).run()


@dataclass(frozen=True)
class _Leaf:
    """A tensor of one side; `values` is None for what is no tensor."""

    values: tuple[float, ...] | None


def _dataset_leaves(tree: dict[str, Any]) -> Iterator[tuple[str, _Leaf]]:
    """Every leaf by its keys, joined with dots."""

    def walk(prefix: str, node: object, depth: int) -> Iterator[tuple[str, _Leaf]]:
        if not isinstance(node, dict) or depth > _DEEPEST:
            yield prefix, _Leaf(None)
            return
        values = _statistics(node)
        if values is not None:
            yield prefix, _Leaf(values)
            return
        for key, value in node.items():
            yield from walk(f"{prefix}.{key}" if prefix else key, value, depth + 1)

    return walk("", tree, 0)


def _weight_leaves(tree: dict[str, Any]) -> Iterator[tuple[str, _Leaf]]:
    for name, node in tree.items():
        yield name, _Leaf(_statistics(node) if isinstance(node, dict) else None)


def _statistics(node: dict[str, Any]) -> tuple[float, ...] | None:
    if node.keys() != _STATISTIC_KEYS:
        return None
    values = (node["max"], node["min"], node["mean"], node["norm"])
    if all(type(value) is float for value in values):
        return values
    numbers = tuple(map(_number, values))
    return None if any(value is None for value in numbers) else numbers  # type: ignore[return-value]


def _number(value: object) -> float | None:
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, value)
    return None


@dataclass
class _Tally:
    """What differs, to be told in a few sentences."""

    unequal: int = 0
    total: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    first: tuple[int, int, str] | None = None
    first_missing: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)

    def note_unequal(self, step: int, rank: int, name: str, reason: str) -> None:
        self.unequal += 1
        self.reasons[reason] += 1
        if self.first is None:
            self.first = (step, rank, name)

    def note_missing(self, step: int, rank: int, name: str, side: str) -> None:
        self.missing[side] += 1
        self.first_missing.setdefault(side, (step, rank, name))


class _Check:
    def __init__(self, name: str, columns: tuple[str, ...], bench: Pack, cmp: Pack, leaves: Any) -> None:
        self._result = CheckResult(name, columns)
        self._bench, self._cmp = bench, cmp
        self._leaves = leaves
        self._tolerant = bench.is_ours != cmp.is_ours
        self._tally = _Tally()
        self._first_step = 0  # of those compared
        # Fingerprints of all inputs of a (step, rank), to recognise batches that come in another order.
        self._batches: tuple[dict[_Place, str], dict[_Place, str]] = ({}, {})

    def run(self) -> CheckResult | None:
        name = self._result.name
        sides = self._bench.files(name), self._cmp.files(name)
        if not sides[0] or not sides[1]:
            return None
        common = [place for place in sides[0] if place in sides[1]]
        if not common:
            self._fail_without_common(sides)
        self._first_step = min((step for step, _ in common), default=0)
        compared_ranks = {rank for _, rank in common}
        for place in sides[0]:
            if place in sides[1]:
                self._compare(place)
            elif name == "weights":
                self._add_missing_file(place, place[1] not in compared_ranks)
        self._note_other_places(sides, common)
        self._summarize()
        return self._result

    # ---- one step of one rank

    def _compare(self, place: _Place) -> None:
        kind = self._result.name
        names = self._bench.files(kind)[place], self._cmp.files(kind)[place]
        texts = self._bench.bytes(names[0]), self._cmp.bytes(names[1])
        if texts[0] is None or texts[1] is None:
            self._result.passed = False  # a problem of the pack is noted
            return
        prints = self._fingerprints(self._bench, 0, place), self._fingerprints(self._cmp, 1, place)
        trees = [self._bench.json(names[0]), None]
        trees[1] = trees[0] if texts[0] == texts[1] else self._cmp.json(names[1])
        if trees[0] is None or trees[1] is None:
            self._result.passed = False
            return
        sides = [dict(self._leaves(tree)) for tree in trees]
        for name, leaf in sides[0].items():
            other = sides[1].get(name)
            if other is None:
                self._add_missing(place, name, leaf, ONLY_BENCH)
            else:
                self._add_pair(place, name, (leaf, other), (prints[0].get(name), prints[1].get(name)))
        for name, leaf in sides[1].items():
            if name not in sides[0]:
                self._add_missing(place, name, leaf, ONLY_CMP)

    def _fingerprints(self, side: Pack, index: int, place: _Place) -> dict[str, Any]:
        kind = self._result.name
        entry = side.files(f"{kind} fingerprints").get(place)
        tree = (side.json(entry) if entry is not None else None) or {}
        if kind == "dataset" and tree:
            self._batches[index][place] = repr(sorted(tree.items(), key=lambda item: item[0]))
        return tree

    def _add_pair(
        self, place: _Place, name: str, leaves: tuple[_Leaf, _Leaf], prints: tuple[object, object]
    ) -> None:
        left, right = (leaf.values for leaf in leaves)
        if left is None and right is None:
            return  # texts and numbers are not recorded
        self._tally.total += 1
        if left is None or right is None:
            self._result.rows.append([*place, name, False, *_NO_DIFFERENCES])
            self._tally.note_unequal(*place, name, "a tensor on one side only")
            return
        if left == right and prints[0] == prints[1]:  # most of them
            cells = [0 if value and math.isfinite(value) else None for value in left]
            self._result.rows.append([*place, name, True, *cells])
            return
        reason = _reason(left, right, prints, self._tolerant)
        relative = [sheet_number(_relative(a, b)) for a, b in zip(left, right)]
        self._result.rows.append([*place, name, reason is None, *relative])
        if reason is not None:
            self._tally.note_unequal(*place, name, reason)

    def _add_missing(self, place: _Place, name: str, leaf: _Leaf, side: str) -> None:
        if self._result.name == "weights":
            self._result.rows.append([*place, name, side, *_NO_DIFFERENCES])
        else:
            self._result.rows.append([*place, name, False, *_NO_DIFFERENCES])
        self._tally.note_missing(*place, name, side)

    def _add_missing_file(self, place: _Place, rank_is_missing: bool) -> None:
        """A step that the other run did not reach is no fault; a rank that it does not have is one."""
        tree = self._bench.json(self._bench.files(self._result.name)[place])
        for name, _ in self._leaves(tree or {}):
            self._result.rows.append([*place, name, ONLY_BENCH, *_NO_DIFFERENCES])
            if rank_is_missing:
                self._tally.note_missing(*place, name, ONLY_BENCH)

    # ---- the whole

    def _fail_without_common(self, sides: tuple[dict[_Place, str], dict[_Place, str]]) -> None:
        bench, cmp = (_places_text(list(side)) for side in sides)
        self._result.fail(
            Difference(
                self._result.name,
                "steps and ranks",
                bench,
                cmp,
                detail="no step of a rank is on both sides: nothing was compared",
            )
        )

    def _note_other_places(
        self, sides: tuple[dict[_Place, str], dict[_Place, str]], common: list[_Place]
    ) -> None:
        if not common:
            return
        for side, other, word in ((sides[0], sides[1], "bench"), (sides[1], sides[0], "cmp")):
            alone = [place for place in side if place not in other]
            if alone:
                self._result.notes.append(
                    f"{self._result.name}: only {word} has {_places_text(alone)}: not compared"
                )
            ranks = {rank for _, rank in side} - {rank for _, rank in other}
            if ranks:
                counts = [len({rank for _, rank in one}) for one in sides]
                self._result.fail(
                    Difference(
                        self._result.name,
                        "ranks",
                        f"{counts[0]} ranks",
                        f"{counts[1]} ranks",
                        detail=f"only {word} has {_numbers('rank', ranks)}",
                    )
                )

    def _summarize(self) -> None:
        tally, name = self._tally, self._result.name
        what = "tensors" if name == "dataset" else "weights"
        if tally.unequal and tally.first is not None:
            step, rank, first = tally.first
            if name == "weights" and step > self._first_step:
                what = "weights after the first step"
            reasons = ", ".join(f"{count} {reason}" for reason, count in tally.reasons.most_common())
            self._result.fail(
                Difference(
                    name,
                    self._order() or what,
                    "",
                    "",
                    count=tally.unequal,
                    detail=f"{tally.unequal} of {tally.total} {what} differ ({reasons}), the first is "
                    f"{first} at step {step}, rank {rank}",
                )
            )
        for side, count in tally.missing.items():
            step, rank, first = tally.first_missing[side]
            bench, cmp = (str(count), "0") if side == ONLY_BENCH else ("0", str(count))
            self._result.fail(
                Difference(
                    name,
                    f"missing {what}",
                    bench,
                    cmp,
                    count=count,
                    detail=f"{count} {what} are on one side only ({side}), the first is {first} at "
                    f"step {step}, rank {rank}",
                )
            )

    def _order(self) -> str | None:
        """What to call it when the inputs are the same but come at other steps or on other ranks."""
        left, right = self._batches
        common = left.keys() & right.keys()
        if not common or sorted(left[place] for place in common) != sorted(right[place] for place in common):
            moved = sum(left[p] != right[p] and left[p] in right.values() for p in common)
            return "order of the data (in part)" if moved else None
        return "order of the data"


def _reason(
    left: tuple[float, ...], right: tuple[float, ...], prints: tuple[object, object], tolerant: bool
) -> str | None:
    """Why two tensors are not equal; None when they are. The fingerprint sees what statistics cannot."""
    if tolerant:
        limits = [0.0] * _EXACT_OF_ANY_TOOL + [_OTHER_TOOL] * (len(left) - _EXACT_OF_ANY_TOOL)
        close = all(_is_close(a, b, limit, left[-1]) for a, b, limit in zip(left, right, limits))
        return None if close else "in their statistics"
    if prints[0] is not None and prints[1] is not None:
        if prints[0] == prints[1]:
            return None
        for key in ("dtype", "shape"):
            one, two = (entry.get(key) if isinstance(entry, dict) else None for entry in prints)
            if one != two:
                return f"in {key}"
        same = all(_is_close(a, b, 0.0, 0.0) for a, b in zip(left, right))
        return "in single elements or their order" if same else "in their values"
    same = all(_is_close(a, b, 0.0, 0.0) for a, b in zip(left, right))
    return None if same else "in their statistics"


def _is_close(left: float, right: float, limit: float, norm: float) -> bool:
    if left == right or (math.isnan(left) and math.isnan(right)):
        return True
    # A mean of nearly nothing: what counts is the size of what was summed.
    return limit > 0 and abs(left - right) <= limit * max(abs(left), abs(right), min(norm, 1.0) * 1e-3)


def _relative(bench: float, cmp: float) -> float | None:
    """|bench - cmp| / bench, with the sign of bench; None where it is 0."""
    if bench == 0:
        return None
    return abs(bench - cmp) / bench


def _places_text(places: list[_Place]) -> str:
    steps, ranks = {step for step, _ in places}, {rank for _, rank in places}
    return f"{_numbers('step', steps)} of {_numbers('rank', ranks)}"


def _numbers(word: str, values: set[int]) -> str:
    """ "steps 0 to 3", "ranks 0, 4"."""
    order = sorted(values)
    if len(order) == 1:
        return f"{word} {order[0]}"
    if order == list(range(order[0], order[-1] + 1)):
        return f"{word}s {order[0]} to {order[-1]}"
    most = 8
    return f"{word}s {', '.join(map(str, order[:most]))}" + (", ..." if len(order) > most else "")
