# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""-lm: records of a MindSpore dump and of a PyTorch dump are one where they stand at the same place of the
model, whose layers a file renames. Docs: docs/formats/graph.md, layer mapping.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from msprobe.compare.framework_names import FrameworkNames, of_functions
from msprobe.files.layer_rules import read_layer_rules
from msprobe.files.regular_file import is_there
from msprobe.native import core

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Rules = Mapping[str, Sequence[tuple[str, str]]]

_MODEL = "TopLayer"
_LAYERS = ("Cell.", "Module.")
# In front of records that have no place in the other model: no record of PyTorch begins like this.
_NOWHERE = "Unmapped."


@dataclass(frozen=True)
class LayerNames(FrameworkNames):
    """Before of_pair() it knows the file alone."""

    rules_of_layers: Rules = field(default_factory=dict)
    records: Mapping[str, str] = field(default_factory=dict)

    def of_pair(self, target: Path, reference: Path) -> LayerNames:
        """Raises as the readers of dumps."""
        ours, theirs = _Model(target), _Model(reference)
        places: dict[_Place, list[str]] = defaultdict(list)
        for record, place in theirs.places():
            places[place].append(record)
        functions = of_functions(None)
        taken: Counter[_Place] = Counter()
        found = {}
        for record, place in ours.places():
            call = functions.other_record(record) if place.function else record
            name = core.call_of(call).split(".")[-2] if place.function else ""
            there = replace(place, path=ours.translated(place.path, self.rules_of_layers), function=name)
            others = places.get(there, [])
            at = taken[there]
            taken[there] += 1
            found[record] = others[at] if at < len(others) else _NOWHERE + record
        return replace(self, records=found)

    def common_records(self) -> set[str]:
        return {name for name in self.records.values() if not name.startswith(_NOWHERE)}

    def other_record(self, record: str) -> str:
        return self.records.get(record, record)

    def other_name(self, item: str, record: str) -> str:
        rest = item[len(record) :]
        part = "." if record.endswith(".parameters_grad") else ".parameters."
        if record.startswith("Cell.") and rest.startswith(part):
            own, dot, deeper = rest[len(part) :].partition(".")
            rest = f"{part}{self.other_parameter(own)}{dot}{deeper}"
        return self.other_record(record) + rest


def of_layers(path: str | None) -> LayerNames:
    """Raises InvalidArgument."""
    return LayerNames(cells={}, rules_of_layers={} if path is None else read_layer_rules(path))


@dataclass(frozen=True)
class _Place:
    path: tuple[str, ...]
    """Of the layer, or of that which called the function."""
    function: str
    """Without what stands before it; empty: the layer itself."""
    state: str


class _Model:
    def __init__(self, dump: Path) -> None:
        self._data: dict[str, Any] = core.read_json(dump)["data"]
        construct = dump.with_name("construct.json")
        self._parents: dict[str, Any] = core.read_json(construct) if is_there(construct) else {}
        self._classes = {
            layer[0]: layer[1] for record in self._data if (layer := _layer_of(record)) is not None
        }

    def places(self) -> Iterator[tuple[str, _Place]]:
        for record in self._data:
            layer = _layer_of(record)
            if layer is not None:
                yield record, _Place(layer[0], "", layer[2])
            elif call := core.call_of(record):
                parent = self._parents.get(f"{call}.forward")
                inside = _layer_of(parent) if isinstance(parent, str) else None
                path = () if inside is None else inside[0]
                yield record, _Place(path, call.split(".")[-2], record[len(call) + 1 :])

    def translated(self, path: tuple[str, ...], rules: Rules) -> tuple[str, ...]:
        """Step by step, by the rules of the class of each layer on the way; the longest one first."""
        found: list[str] = []
        at = 0
        while at < len(path):
            kind = self._classes.get(path[:at], path[at - 1]) if at else _MODEL
            for part, other in sorted(rules.get(kind, ()), key=lambda rule: -rule[0].count(".")):
                parts = tuple(part.split("."))
                if path[at : at + len(parts)] == parts:
                    found += other.split(".")
                    at += len(parts)
                    break
            else:
                found.append(path[at])
                at += 1
        return tuple(found)


def _layer_of(record: str) -> tuple[tuple[str, ...], str, str] | None:
    """Path, class, and what it is a record of: "forward"."""
    if not record.startswith(_LAYERS):
        return None
    for direction in ("forward", "backward", "parameters_grad"):
        head, is_found, _ = record.rpartition(f".{direction}")
        if is_found:
            path, _, kind = head.partition(".")[2].rpartition(".")
            return tuple(path.split(".")), kind, direction
    return None
