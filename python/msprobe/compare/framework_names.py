# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a MindSpore dump's items are called in a PyTorch dump: by functions (-am) or by Cells (-cm)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.native import InvalidArgument, core

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_FUNCTIONS = Path(__file__).with_name("mindspore_functions.json")
# Of whole prefixes: functions that MindSpore made after PyTorch's.
_PREFIXES = {"Mint": "Torch", "MintFunctional": "Functional", "MintDistributed": "Distributed"}
# Parts of an item's name, and the keys of a file of functions that say what is what in the other framework.
_PARTS = {
    "input": "args",
    "kwargs": "args",
    "output": "output",
    "parameters": "parameters",
    "parameters_grad": "parameters_grad",
}

# Of Cells that come with MindSpore.
_PARAMETERS = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "embedding_table": "weight",
}


# Of functions.
_KEYWORDS = {"axis": "dim", "keepdims": "keepdim", "keep_dims": "keepdim", "epsilon": "eps"}


def keyword_in_pytorch(name: str) -> str:
    return _KEYWORDS.get(name, name)


def parameter_in_pytorch(name: str) -> str:
    """Of a Cell that comes with MindSpore: "weight" of "gamma"."""
    return _PARAMETERS.get(name, name)


@dataclass(frozen=True)
class FunctionRule:
    """One entry of a file of functions. places: part -> position in MindSpore -> position in PyTorch."""

    name: str
    other: str
    places: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class FrameworkNames:
    """How names of a MindSpore dump are read as those of a PyTorch dump."""

    cells: Mapping[str, str] | None = None
    """ "fc1.Dense" -> "fc1.Linear"; others keep their names. None: Cells are not asked about."""
    functions: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[FunctionRule, ...] = ()

    def of_pair(self, target: Path, reference: Path) -> FrameworkNames:
        """Where names depend on both dumps."""
        return self

    def common_records(self) -> set[str] | None:
        """What the verdict looks at, by PyTorch's names; None: everything."""
        return None

    def mapping_of(self, trace: core.Trace) -> dict[str, str]:
        """Name of an item -> its name in a PyTorch dump, for those that differ."""
        mapping = {}
        for item, record in trace.item_names():
            other = self.other_name(item, record)
            if other != item:
                mapping[item] = other
        return mapping

    def other_name(self, item: str, record: str) -> str:
        """An item of a rule that names no such place has none: a name that no dump has."""
        callee = _callee(record)
        if self.cells is not None and (callee.startswith("Cell.") or not self.functions):
            return self._of_cell(item, record)
        if (rule := self._rule_of(callee)) is not None:
            return _by_rule(rule, item, record)
        prefix, _, _ = callee.partition(".")
        if prefix in _PREFIXES:
            return _PREFIXES[prefix] + item[len(prefix) :]
        other = self.functions.get(callee)
        return item if other is None else other + item[len(callee) :]

    def other_record(self, record: str) -> str:
        """What has no name of a record stays as it is."""
        callee = _callee(record)
        if (rule := self._rule_of(callee)) is not None:
            return rule.other + record[len(callee) :]
        return self.other_name(record, record)

    def other_parameter(self, name: str) -> str:
        return parameter_in_pytorch(name) if self.cells is not None else name

    def arranged(self, record: str, value: dict[str, Any]) -> dict[str, Any]:
        """A record with its arguments and results where the other function has them, if a rule says so."""
        if (rule := self._rule_of(_callee(record))) is None:
            return value
        for part, key in (("args", "input_args"), ("output", "output")):
            places = rule.places.get(part)
            if places and isinstance(value.get(key), list):
                value = {**value, key: _at_places(value[key], places)}
        return value

    def _rule_of(self, callee: str) -> FunctionRule | None:
        return next((rule for rule in self.rules if rule.name == callee), None)

    def _of_cell(self, item: str, record: str) -> str:
        callee = _callee(record)
        if not callee.startswith("Cell."):
            return item
        cell = callee.partition(".")[2]
        assert self.cells is not None
        rest = item[len(callee) :]
        for part in (".parameters.", ".parameters_grad."):
            before, found, name = rest.rpartition(part)
            if found:
                own, dot, deeper = name.partition(".")
                rest = f"{before}{found}{self.other_parameter(own)}{dot}{deeper}"
        return f"Module.{self.cells.get(cell, cell)}{rest}"


def _at_places(values: list[Any], places: Mapping[str, str]) -> list[Any]:
    found = {int(to): values[int(at)] for at, to in places.items() if at.isdigit() and int(at) < len(values)}
    return [found.get(index) for index in range(max(found, default=-1) + 1)]


def of_functions(path: str | None) -> FrameworkNames:
    """-am: the built-in table, after the entries of a file where one is given. Raises InvalidArgument."""
    return FrameworkNames(functions=_table(), rules=() if path is None else read_function_rules(path))


def of_cells(path: str | None) -> FrameworkNames:
    """-cm. Raises InvalidArgument."""
    from msprobe.compare.inputs import read_data_mapping

    return FrameworkNames(cells={} if path is None else read_data_mapping(path))


def _table() -> dict[str, str]:
    table = {}
    for group in json.loads(_FUNCTIONS.read_text(encoding="utf-8"))["sets"]:
        pairs = {**{name: name for name in group["names"]}, **group.get("renamed", {})}
        table.update({f"{group['from']}.{name}": f"{group['to']}.{other}" for name, other in pairs.items()})
    return table


def _callee(record: str) -> str:
    """ "Functional.relu" of "Functional.relu.0.forward", "Cell.fc1.Dense" of "Cell.fc1.Dense.forward.0"."""
    if call := core.call_of(record):
        return call.rpartition(".")[0]
    for direction in (".forward.", ".backward.", ".parameters_grad"):
        head, found, _ = record.rpartition(direction)
        if found:
            return head
    return record


def _by_rule(rule: FunctionRule, item: str, record: str) -> str:
    renamed = rule.other + item[len(rule.name) :]
    rest = item[len(record) + 1 :] if item.startswith(record + ".") else ""
    part, _, place = rest.partition(".")
    if part not in _PARTS:
        return renamed
    position, dot, deeper = place.partition(".")
    other = rule.places.get(_PARTS[part], {}).get(position)
    if other is None:
        return f"{renamed} (not in the mapping)"
    return f"{rule.other}{record[len(rule.name) :]}.{part}.{other}{dot}{deeper}"


def read_function_rules(path: str | os.PathLike[str]) -> tuple[FunctionRule, ...]:
    """A YAML list of functions, or one of them alone. Raises InvalidArgument, with file, entry and key."""
    entries = core.read_yaml(path)
    if isinstance(entries, dict) and "ms_api" in entries:
        entries = [entries]
    if not isinstance(entries, list):
        raise InvalidArgument(f"{path}: expected a list of functions, each with ms_api and pt_api")
    return tuple(_rule(f"{path}: entry {number}", entry) for number, entry in enumerate(entries, 1))


def _rule(place: str, entry: Any) -> FunctionRule:
    if not isinstance(entry, dict):
        raise InvalidArgument(f"{place}: expected ms_api, pt_api and lists of positions")
    for key in ("ms_api", "pt_api"):
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise InvalidArgument(
                f'{place}: "{key}": expected the name of a function, found {entry.get(key)!r}'
            )
    places = {}
    for part in dict.fromkeys(_PARTS.values()):
        ours, theirs = (_positions(place, entry, side, part) for side in ("ms", "pt"))
        if len(ours) != len(theirs):
            raise InvalidArgument(
                f'{place}: "ms_{part}" and "pt_{part}": expected lists of equal length, found '
                f"{len(ours)} and {len(theirs)}"
            )
        places[part] = dict(zip(ours, theirs))
    return FunctionRule(entry["ms_api"], entry["pt_api"], places)


def _positions(place: str, entry: dict[str, Any], side: str, part: str) -> list[str]:
    """`ms_output` is also called `ms_outputs`."""
    key = f"{side}_{part}"
    values = entry.get(key, entry.get(f"{key}s", []))
    if not isinstance(values, list) or not all(isinstance(value, (int, str)) for value in values):
        raise InvalidArgument(f'{place}: "{key}": expected a list of positions, found {values!r}')
    if len(set(map(str, values))) < len(values):
        raise InvalidArgument(f'{place}: "{key}": expected each position once, found {values!r}')
    return [str(value) for value in values]
