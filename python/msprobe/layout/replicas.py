# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The replica check: values of one run that its layout says are equal on several ranks, held against each
other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.files.left_out import joined, left_out
from msprobe.files.ranges import numbers
from msprobe.layout.copies import Copies
from msprobe.layout.described import place_shards, read_description
from msprobe.layout.job import each, items, section, sections, world_size
from msprobe.layout.random_states import notes_of
from msprobe.layout.tensor_entry import OTHER_FORMS, are_of_one_form, identity
from msprobe.native import NothingToCompare, __version__
from msprobe.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from msprobe.files.left_out import LeftOut
    from msprobe.layout.copies import Group
    from msprobe.layout.job import Job, State
    from msprobe.result import Cell

NOT_SEEN = (
    "gradients before the reduction: each rank has those of its own data, and what is wrong there is summed "
    "into all copies alike",
    "buffers, and activations: each rank has those of its own data",
)
_LEAST_RANKS = 3  # of two nobody can say which one is off


@dataclass(frozen=True)
class Value:
    """One value of a step, on the ranks that have it."""

    kind: str
    """ "weight", "gradient", "setting" or "state": in this order."""
    parameter: str
    name: str
    entries: dict[int, Any]


@dataclass(frozen=True)
class Mismatch:
    """A value that should be the same on several ranks, and is not."""

    step: int
    kind: str
    parameter: str
    name: str
    ranks: tuple[int, ...]
    """That should have the same."""
    off: tuple[int, ...]
    """Those that differ from most of them; all, where nobody can say which."""
    declared: bool
    """The layout says so; else only that they began equal does."""
    why: str
    """Why it should be equal."""
    should: str
    """What should have made it equal, or what is known of how it came apart."""

    @property
    def sentence(self) -> str:
        what = f"setting {self.name}" if self.kind == "setting" else f"{self.kind} {self.name}"
        others = [rank for rank in self.ranks if rank not in self.off]
        if others:
            on = numbers("rank", self.off)
            return f"step {self.step}: the {what} on {on} is not that on {numbers('rank', others)}"
        return f"step {self.step}: the {what} is not the same on {numbers('rank', self.ranks)}"


@dataclass(repr=False)
class ReplicaResult(Result):
    """What a replica check found."""

    ranks: list[int]
    steps: list[int] = field(default_factory=list)
    """That were looked at: all up to the first with a difference."""
    compared: int = 0
    """Values, each once for all ranks that have a copy."""
    mismatches: list[Mismatch] = field(default_factory=list)
    """Of the first step that has any, in the order in which a step runs."""
    layout: list[str] = field(default_factory=list)
    """Why values should be equal."""
    unknown: int = 0
    """Values of several ranks of which nothing says that they are copies."""
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Of the random numbers of the ranks in the first step."""

    @property
    def status(self) -> str:
        """ "equal", "differ" or "incomplete"."""
        if self.mismatches:
            return "differ"
        return "incomplete" if any(one.is_difference for one in self.left_out) else "equal"

    @property
    def sentence(self) -> str:
        if self.mismatches:
            return f"Replicas disagree first at {self.mismatches[0].sentence}"
        where = f"{numbers('rank', self.ranks)}, {numbers('step', self.steps)}"
        told = f"Replicas agree: {self.compared} values that should be equal are, on {where}"
        return told if self.status == "equal" else f"{told}, but not everything could be compared"

    def table(self) -> Sequence[dict[str, Cell]]:
        return [
            {
                "step": one.step,
                "kind": one.kind,
                "name": one.name,
                "ranks": ", ".join(map(str, one.ranks)),
                "off": ", ".join(map(str, one.off)),
                "why": one.why,
                "should": one.should,
            }
            for one in self.mismatches
        ]

    def content(self, run: Path) -> dict[str, object]:
        """For replicas.json (docs/formats/diagnose.md)."""
        return {
            "format": 1,
            "msprobe": __version__,
            "status": self.status,
            "sentence": self.sentence,
            "mismatches": [asdict(one) for one in self.mismatches],
            "ranks": self.ranks,
            "steps": self.steps,
            "compared": self.compared,
            "unknown": self.unknown,
            "layout": self.layout,
            "notes": self.notes,
            "not_compared": [one.content for one in joined(self.left_out)],
            "not_seen": list(NOT_SEEN),
            "inputs": {"run": str(run)},
        }


def check_replicas(job: Job) -> ReplicaResult:
    """Steps behind the first one with a difference are not looked at. Raises NothingToCompare."""
    result = ReplicaResult(job.ranks, left_out=job.left_out)
    copies: Copies | None = None
    before: dict[int, State] = {}
    description = read_description(job.folder)
    for step, states in job.states():
        if len(states) < 2:
            continue
        place_shards(states, description)
        copies = copies or Copies(states)
        if not result.steps:
            result.notes = notes_of(states)
        result.steps.append(step)
        _check_step(result, step, states, before, copies)
        if result.mismatches:
            break
        before = states
    if not result.compared:
        raise NothingToCompare(f"{job.folder}: {_why_nothing(job, result)}")
    return result


def _why_nothing(job: Job, result: ReplicaResult) -> str:
    size = world_size(job.first_state() or {}) or 1
    if len(job.ranks) < 2 <= size:
        return f"one rank of {size} was recorded, and the copies of its values are on others"
    if len(job.ranks) < 2:
        return "one process trained, and its values have no copies; expected a second run: REFERENCE TARGET"
    if not result.steps:
        why = f": {job.left_out[0].reason}" if job.left_out else ""
        return f"no step has the training state (diagnosis.json) of two ranks{why}"
    return "nothing says that a value of one rank is a copy of one of another rank"


def _check_step(
    result: ReplicaResult, step: int, states: dict[int, State], before: dict[int, State], copies: Copies
) -> None:
    other_forms = []
    for value in values_of(states):
        groups = copies.groups(value.parameter, value.entries)
        if groups and not are_of_one_form([*value.entries.values()]):
            other_forms.append(value)
            continue
        result.unknown += not groups
        for group in groups:
            result.compared += 1
            if group.why not in result.layout:
                result.layout.append(group.why)
            off = _off(value, group)
            if off:
                known = {one.parameter for one in result.mismatches}
                result.mismatches.append(_mismatch(step, value, group, off, before, states, known))
    if other_forms:
        name = f"{len(other_forms)} values, as the {other_forms[0].kind} {other_forms[0].name}"
        result.left_out.append(left_out(OTHER_FORMS, step, name=name))


# ---- the values of a step


def values_of(states: dict[int, State]) -> Iterator[Value]:
    """In the order in which a step uses or makes them: a backward pass comes to the last parameters first."""
    for name, entries in _across(sections(states, "parameters")):
        yield Value("weight", name, name, entries)
    for found in each(states, "gradients_at_optimizer"):
        for name, entries in reversed(list(_across(sections(found, "gradients")))):
            yield Value("gradient", name, f"of {name}", entries)
    for number, found in enumerate(each(states, "optimizer")):
        for name, parameter, entries in _settings(found):
            yield Value(
                "setting",
                parameter,
                f"optimizer.{name}" if number == 0 else f"optimizer.{number}.{name}",
                entries,
            )
        for parameter, by_rank in _across(sections(found, "state_after")):
            states_of = {rank: one for rank, one in by_rank.items() if isinstance(one, dict)}
            for name, entries in _across(states_of):
                yield Value("state", parameter, f"{name} of {parameter}", entries)


def _across(by_rank: dict[int, State]) -> Iterator[tuple[str, dict[int, Any]]]:
    names = dict.fromkeys(name for found in by_rank.values() for name in found)
    for name in names:
        entries = {rank: found[name] for rank, found in by_rank.items() if name in found}
        if len(entries) > 1:
            yield name, entries


def _settings(found: dict[int, State]) -> Iterator[tuple[str, str, dict[int, Any]]]:
    """Settings of groups, with a parameter of the group."""
    groups = {rank: items(one, "groups") for rank, one in found.items()}
    for place in range(min(map(len, groups.values()), default=0)):
        parameters = next(iter(groups.values()))[place].get("parameters") or [""]
        by_rank = {rank: section(one[place], "hyper") for rank, one in groups.items()}
        for name, entries in _across(by_rank):
            yield f"groups.{place}.{name}", str(parameters[0]), entries


# ---- what differs


def _off(value: Value, group: Group) -> tuple[int, ...]:
    found = {rank: identity(value.entries[rank]) for rank in group.ranks if rank in value.entries}
    found = {rank: one for rank, one in found.items() if one is not None}
    counted = Counter(found.values())
    if len(counted) < 2:
        return ()
    usual, most = counted.most_common(1)[0]
    is_clear = most * 2 > len(found) and len(found) >= _LEAST_RANKS
    return tuple(sorted(rank for rank, one in found.items() if not is_clear or one != usual))


def _mismatch(
    step: int,
    value: Value,
    group: Group,
    off: tuple[int, ...],
    before: dict[int, State],
    states: dict[int, State],
    known: set[str],
) -> Mismatch:
    """known: parameters of which something differs already."""
    should = (
        "it follows from what differs before it"
        if value.parameter in known and value.kind != "setting"
        else {
            "weight": _of_weight(value.parameter, group, before),
            "gradient": _of_gradient(value.parameter, group, states),
            "setting": "each rank sets it by itself: no collective makes it equal",
            "state": "the optimizer makes it of equal gradients and states: no collective makes it equal",
        }[value.kind]
    )
    return Mismatch(
        step,
        value.kind,
        value.parameter,
        value.name,
        tuple(group.ranks),
        off,
        group.declared,
        group.why,
        should,
    )


def _of_weight(name: str, group: Group, before: dict[int, State]) -> str:
    if not before:
        return (
            f"{group.at_start} should have made it equal before the first step that was recorded"
            if group.at_start
            else "the same seed, or a broadcast, should have made it equal before the first recorded step"
        )
    return (
        "weights, gradients, settings and states of the step before are equal on these ranks: the weight was "
        "changed outside of the optimizer, or the optimizer left it out; no collective repairs that"
    )


def _of_gradient(name: str, group: Group, states: dict[int, State]) -> str:
    """A gradient that is still what the rank made of its own data was not reduced at all."""
    local = [rank for rank in group.ranks if _is_local(states.get(rank, {}), name)]
    text = f"{group.reduction} should have made it equal"
    if len(local) == len(group.ranks):
        return f"{text}; every rank has the gradient of its own data still: it was not reduced"
    if local:
        return f"{text}; {numbers('rank', local)} has the gradient of its own data still"
    return f"{text}; it was changed behind it, or reduced over other ranks"


def _is_local(state: State, name: str) -> bool:
    reduced = _identity_in(items(state, "gradients_at_optimizer"), "gradients", name)
    local = _identity_in(items(state, "backward"), "before_reduction", name)
    return reduced is not None and reduced == local


def _identity_in(found: list[State], part: str, name: str) -> object:
    """Of the last item of a list that has such an entry."""
    for one in reversed(found):
        entry = section(one, part).get(name)
        if entry is not None:
            return identity(entry)
    return None
