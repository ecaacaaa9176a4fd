# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Every difference between two dumps, to the last bit, in the order in which it came about.

It is the proof of the labels: without noise, nothing in front of the planted place differs.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

# The phases of a step: sections of diagnosis.json, and records of dump.json between them.
PHASES = (
    "modules", "rng", "parameters", "buffers", "inputs",
    "forward", "parameters_grad", "backward", "reduce", "clipping", "clip", "gradients_at_optimizer",
    "optimizer", "update", "state_after",
)  # fmt: skip

# Generators that no model uses, and nobody seeds.
UNUSED = {"start.python", "start.numpy"}


class Difference(NamedTuple):
    step: int
    phase: int
    position: int
    rank: int
    text: str
    """`{phase} {where} {value} | {value}`."""

    @property
    def phase_name(self) -> str:
        return PHASES[self.phase]

    def __str__(self) -> str:
        return f"step {self.step}, rank {self.rank}: {self.text}"


def differences(golden: Path, target: Path) -> list[Difference]:
    """Of all steps and ranks; empty: the same to the last bit that is recorded."""
    found: list[Difference] = []
    for folder in sorted(golden.glob("step*/rank*")):
        step, rank = int(folder.parent.name[4:]), int(folder.name[4:] or 0)
        other = target / folder.parent.name / folder.name
        found += (
            Difference(step, phase, position, rank, text) for phase, position, text in _of_step(folder, other)
        )
    return sorted(found)


def _of_step(golden: Path, target: Path) -> Iterator[tuple[int, int, str]]:
    ours, theirs = _sections(golden), _sections(target)
    for phase, name in enumerate(PHASES):
        if name in ours or name in theirs:
            for position, text in enumerate(_values(ours.get(name), theirs.get(name), ())):
                if name != "rng" or text.split(" ")[0] not in UNUSED:
                    yield phase, position, f"{name} {text}"
    for name, position, text in _records(golden, target):
        yield PHASES.index(name), position, f"{name} {text}"


@functools.lru_cache(maxsize=64)
def read(path: Path) -> Any:
    """A file of a dump. It is kept: references are compared with many runs. Not to be changed."""
    return json.loads(path.read_text(encoding="utf-8"))


def _sections(folder: Path) -> dict[str, Any]:
    path = folder / "diagnosis.json"
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found["rng"].pop("step")
    found["state_after"] = [item.pop("state_after", None) for item in found["optimizer"]]
    return found


def _records(golden: Path, target: Path) -> Iterator[tuple[str, int, str]]:
    """Phase, position and text. The order of forward records counts, that of backward records does not."""
    ours, theirs = _phases_of_records(golden), _phases_of_records(target)
    for phase in ours:
        names, others = ([n for n in side[phase] if "backward" not in n] for side in (ours, theirs))
        first = next((pair for pair in zip_longest(names, others) if pair[0] != pair[1]), None)
        if first is not None:
            position = list(ours[phase]).index(first[0]) if first[0] else len(ours[phase])
            yield phase, position, f"calls part: {first[0]}, {first[1]}"
        for position, (name, record) in enumerate(ours[phase].items()):
            if first is not None and first[0] == name:
                break  # behind it the same name is another call
            if name in theirs[phase]:
                values = _values(record, theirs[phase][name], ())
                yield from ((phase, position, f"{name} {text}") for text in values)
            else:
                yield phase, position, f"{name} missing"


def _phases_of_records(folder: Path) -> dict[str, dict[str, Any]]:
    data = read(folder / "dump.json")["data"]
    parents = read(folder / "construct.json")
    found: dict[str, dict[str, Any]] = {
        name: {} for name in ("forward", "parameters_grad", "reduce", "clip", "update")
    }
    last = max((i for i, name in enumerate(data) if "backward" in name), default=len(data))
    for index, (name, record) in enumerate(data.items()):
        parent = parents.get(name)
        if name.endswith("parameters_grad"):
            phase = "parameters_grad"
        elif parent == "optimizer":
            phase = "update"
        elif parent == "clip_grad":
            phase = "clip"
        else:
            phase = "forward" if index <= last else "reduce"
        found[phase][name] = record if "backward" in name else {"inside": parent, **record}
    return found


def _values(ours: Any, theirs: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in list(ours) + [key for key in theirs if key not in ours]:
            if key == "data_name":
                continue
            yield from _values(ours.get(key, "absent"), theirs.get(key, "absent"), (*path, key))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs)):
            yield from _values(*pair, (*path, str(index)))
    elif ours != theirs and not (ours != ours and theirs != theirs):
        yield f"{'.'.join(path)} {_short(ours)} | {_short(theirs)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
