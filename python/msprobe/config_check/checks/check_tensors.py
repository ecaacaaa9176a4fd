# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of the first inputs and of the weights, step by step and rank by rank."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msprobe.config_check.checks.check_result import Cell, CheckResult, Difference
from msprobe.native import core

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msprobe.config_check.packs.pack_reader import EntryInFile, Pack

STATISTICS = ("max", "min", "mean", "norm")
_DIFFERENCES = tuple(f"{name}_relative_diff" for name in STATISTICS)
DATASET_COLUMNS = ("step", "rank", "tag", "equal", *_DIFFERENCES)
WEIGHTS_COLUMNS = ("step", "rank", "weight_name", "equal", *_DIFFERENCES)

ONLY_REFERENCE = "only bench have"
ONLY_TARGET = "only cmp have"

# Bytes of entries that are compared at a time.
_BLOCK = 64 << 20

# How a verdict of core.compare_pack_tensors is told.
_REASONS = {
    "statistics": "in their statistics",
    "type": "in dtype",
    "shape": "in shape",
    "elements": "in single elements or their order",
    "values": "in their values",
    "no tensor": "a tensor on one side only",
}
_MISSING = {"only in the reference": ONLY_REFERENCE, "only in the target": ONLY_TARGET}

_NO_DIFFERENCES: tuple[Cell, ...] = (None, None, None, None)
_Place = tuple[int, int]  # step and rank


def check_dataset(reference: Pack, target: Pack) -> CheckResult | None:
    """None when a side has no inputs."""
    return _Check("dataset", DATASET_COLUMNS, reference, target).run()


def check_weights(reference: Pack, target: Pack) -> CheckResult | None:
    """None when a side has no weights."""
    return _Check("weights", WEIGHTS_COLUMNS, reference, target).run()


@dataclass
class _Tally:
    """What differs, to be told in a few sentences."""

    unequal: int = 0
    total: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    first: tuple[int, int, str] | None = None
    first_missing: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    at_first: list[str] = field(default_factory=list)
    """All names at the first step and rank where one is not equal."""
    equal_at_first: list[str] = field(default_factory=list)

    def note_unequal(self, step: int, rank: int, name: str, reason: str) -> None:
        self.unequal += 1
        self.reasons[reason] += 1
        if self.first is None:
            self.first = (step, rank, name)
        if self.first[:2] == (step, rank):
            self.at_first.append(name)

    def note_equal(self, rows: list[list[Any]]) -> None:
        """rows: of one step and rank, whose unequal names are noted."""
        if self.first is not None and rows and self.first[:2] == (rows[0][0], rows[0][1]):
            self.equal_at_first = [row[2] for row in rows if row[2] not in self.at_first]

    @property
    def which(self) -> str:
        """What else differs where the first difference is, and what is equal there."""
        others, equal = self.at_first[1:], self.equal_at_first
        text = f"; there, too: {_some(others)}" if others else ""
        return text + (f"; equal there: {_some(equal)}" if equal else "")

    def note_missing(self, step: int, rank: int, name: str, side: str) -> None:
        self.missing[side] += 1
        self.first_missing.setdefault(side, (step, rank, name))


class _Check:
    def __init__(self, name: str, columns: tuple[str, ...], reference: Pack, target: Pack) -> None:
        self._result = CheckResult(name, columns)
        self._reference, self._target = reference, target
        self._tolerant = reference.is_ours != target.is_ours
        self._tally = _Tally()
        self._first_step = 0  # of those compared
        # Fingerprints of all inputs of a (step, rank), to recognise batches that come in another order.
        self._batches: tuple[dict[_Place, str], dict[_Place, str]] = ({}, {})

    def run(self) -> CheckResult | None:
        name = self._result.name
        sides = self._reference.files(name), self._target.files(name)
        if not sides[0] or not sides[1]:
            return None
        common = [place for place in sides[0] if place in sides[1]]
        if not common:
            self._fail_without_common(sides)
        self._first_step = min((step for step, _ in common), default=0)
        compared_ranks = {rank for _, rank in common}
        for block in self._blocks(common):
            self._compare(block)
        alone = [place for place in sides[0] if place not in sides[1]]
        if name == "weights" and alone:
            for place in alone:
                self._add_missing_file(place, place[1] not in compared_ranks)
            self._result.rows.sort(key=itemgetter(0, 1))
        self._note_other_places(sides, common)
        self._summarize()
        return self._result

    # ---- steps of ranks

    def _blocks(self, common: list[_Place]) -> Iterator[list[_Place]]:
        """Places whose entries are read together."""
        block: list[_Place] = []
        size = 0
        for place in common:
            block.append(place)
            size += sum(
                entry[3]
                for side in (self._reference, self._target)
                for entry in self._entries(side, place)
                if entry
            )
            if size >= _BLOCK:
                yield block
                block, size = [], 0
        if block:
            yield block

    def _entries(self, side: Pack, place: _Place) -> tuple[EntryInFile, EntryInFile | None]:
        kind = self._result.name
        prints = side.files(f"{kind} fingerprints").get(place)
        statistics = side.entry(side.files(kind)[place])
        assert statistics is not None  # only files have tensors
        return statistics, None if prints is None else side.entry(prints)

    def _compare(self, places: list[_Place]) -> None:
        if self._reference.file is None or self._target.file is None:
            return
        pairs = [
            (*place, self._entries(self._reference, place), self._entries(self._target, place))
            for place in places
        ]
        compared = core.compare_pack_tensors(
            self._reference.file,
            self._target.file,
            pairs,
            nested=self._result.name == "dataset",
            tolerant=self._tolerant,
        )
        for place, (rows, unequal, problems, complete) in zip(places, compared):
            for of_reference, entry, text in problems:
                (self._reference if of_reference else self._target).leave_out(entry, f"it is damaged: {text}")
            self._result.passed &= complete
            self._tally.total += len(rows)
            for index, verdict in unequal:
                self._note_unequal(rows[index], verdict)
            self._tally.note_equal(rows)
            self._result.rows += rows
            if complete and self._result.name == "dataset":
                self._note_batch(place)

    def _note_unequal(self, row: list[Any], verdict: str) -> None:
        step, rank, name = row[:3]
        side = _MISSING.get(verdict)
        if side is None:
            self._tally.note_unequal(step, rank, name, _REASONS[verdict])
            return
        self._tally.total -= 1
        self._tally.note_missing(step, rank, name, side)
        if self._result.name == "weights":
            row[3] = side

    def _note_batch(self, place: _Place) -> None:
        for side, batches in zip((self._reference, self._target), self._batches):
            entry = side.files("dataset fingerprints").get(place)
            tree = (side.json(entry) if entry is not None else None) or {}
            if tree:
                batches[place] = repr(sorted(tree.items(), key=lambda item: item[0]))

    def _add_missing_file(self, place: _Place, rank_is_missing: bool) -> None:
        """A step that the other run did not reach is no fault; a rank that it does not have is one."""
        for name in self._reference.json(self._reference.files("weights")[place]) or {}:
            self._result.rows.append([*place, name, ONLY_REFERENCE, *_NO_DIFFERENCES])
            if rank_is_missing:
                self._tally.note_missing(*place, name, ONLY_REFERENCE)

    # ---- the whole

    def _fail_without_common(self, sides: tuple[dict[_Place, str], dict[_Place, str]]) -> None:
        reference, target = (_places_text(list(side)) for side in sides)
        self._result.fail(
            Difference(
                self._result.name,
                "steps and ranks",
                reference,
                target,
                detail="no step of a rank is on both sides: nothing was compared",
            )
        )

    def _note_other_places(
        self, sides: tuple[dict[_Place, str], dict[_Place, str]], common: list[_Place]
    ) -> None:
        if not common:
            return
        for side, other, word in ((sides[0], sides[1], "bench"), (sides[1], sides[0], "cmp")):
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
                    f"{first} at step {step}, rank {rank}" + (tally.which if name == "dataset" else ""),
                )
            )
        for side, count in tally.missing.items():
            step, rank, first = tally.first_missing[side]
            is_theirs = side == ONLY_REFERENCE
            reference, target = (str(count), "0") if is_theirs else ("0", str(count))
            self._result.fail(
                Difference(
                    name,
                    f"missing {what}",
                    reference,
                    target,
                    count=count,
                    detail=f"{count} {what} are only in the {'reference' if is_theirs else 'target'}, the "
                    f"first is {first} at step {step}, rank {rank}",
                )
            )

    def _order(self) -> str | None:
        """What to call it when the inputs are the same but come at other steps or on other ranks."""
        reference, target = self._batches
        common = reference.keys() & target.keys()
        if not common or sorted(reference[place] for place in common) != sorted(
            target[place] for place in common
        ):
            moved = sum(reference[p] != target[p] and reference[p] in target.values() for p in common)
            return "order of the data (in part)" if moved else None
        return "order of the data"


def _some(names: list[str]) -> str:
    most = 5
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


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
