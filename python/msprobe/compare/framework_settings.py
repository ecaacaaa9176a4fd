# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What diagnosis.json says in both frameworks: settings of Cells and of optimizers in PyTorch's words."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TABLE = Path(__file__).with_name("mindspore_settings.json")
# Of a dump, and what diagnosis.json calls them.
_STATISTICS = {"Max": "max", "Min": "min", "Mean": "mean", "Norm": "norm"}
_OF_DUMPS_ALONE = ("type", "data_name", "requires_grad", "md5")
_LIBRARIES = ("torch.", "mindspore.")  # classes elsewhere are the program's own


def common_settings(
    ours: dict[str, Any], theirs: dict[str, Any], path_of: Callable[[str], str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings that both have, of modules of the same path and of optimizers, as two diagnosis.json.
    ours: of MindSpore. path_of: of a Cell -> of the Module.
    """
    mine = {path_of(path): one for path, one in _members(ours, "modules").items()}
    other = _members(theirs, "modules")
    modules: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for path in mine.keys() & other.keys():
        for found, one in zip(modules, _common_module(mine[path], other[path])):
            found[path] = one
    optimizers = [_listed(state, "optimizer") for state in (ours, theirs)]
    pairs = [_common_optimizer(a, b) for a, b in zip(*optimizers)]
    return (
        _state(modules[0], [a for a, _ in pairs]),
        _state(modules[1], [b for _, b in pairs]),
    )


def parameters_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Section `parameters`, of the records of a dump: what each Module had at its first call."""
    found: dict[str, Any] = {}
    for name, record in data.items():
        callee, is_forward, _ = name.rpartition(".forward.")
        if not name.startswith("Module.") or not is_forward or not isinstance(record, dict):
            continue
        path = callee.removeprefix("Module.").rpartition(".")[0]
        for parameter, value in _members(record, "parameters").items():
            if isinstance(value, dict):
                found.setdefault(f"{path}.{parameter}", _entry(value))
    return found


def _entry(value: dict[str, Any]) -> dict[str, Any]:
    entry = {_STATISTICS.get(key, key): one for key, one in value.items() if key not in _OF_DUMPS_ALONE}
    return {"requires_grad": True, **entry}


def _state(modules: dict[str, Any], optimizers: list[Any]) -> dict[str, Any]:
    return {
        "version": 1,
        "kinds": ["modules", "parameters", "optimizer"],
        "modules": modules,
        "optimizer": optimizers,
        "faults": [],
    }


def _members(state: dict[str, Any], section: str) -> dict[str, Any]:
    found = state.get(section)
    return found if isinstance(found, dict) else {}


def _listed(state: dict[str, Any], section: str) -> list[Any]:
    found = state.get(section)
    return found if isinstance(found, list) else []


def _common_module(ours: Any, theirs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of a class of the program its attributes of the same name; of a class of the frameworks those that the
    table has. A Cell of a subclass of the program is known by its values alone.
    """
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return {}, {}
    mine: dict[str, Any]
    other: dict[str, Any]
    kinds = [str(one.get("class", "")) for one in (ours, theirs)]
    settings = [_members(one, "settings") for one in (ours, theirs)]
    known = [kind.startswith(_LIBRARIES) for kind in kinds]
    if not all(known):
        if any(known):
            return {}, {}
        same = [name for name in settings[0] if name in settings[1] and _is_one_kind(name, *settings)]
        mine, other = ({"settings": {name: one[name] for name in same}} for one in settings)
        return mine, other
    kind = kinds[0].rpartition(".")[2]
    rule = _table()["cells"].get(kind)
    if rule is None and kind not in _table()["same"]:
        return {}, {}  # nobody knows what it is in PyTorch
    rule = rule or {}
    words = _words(settings[0], rule)
    words = {name: value for name, value in words.items() if name in settings[1]}
    mine = {"class": rule.get("class", kind), "settings": words}
    other = {"class": kinds[1].rpartition(".")[2], "settings": {name: settings[1][name] for name in words}}
    if mine["class"] != other["class"]:
        return {"class": mine["class"]}, {"class": other["class"]}
    if rule.get("training"):
        for found, one in ((mine, ours), (other, theirs)):
            found["training"] = one.get("training")
    return mine, other


def _is_one_kind(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return _json_kind(ours[name]) is _json_kind(theirs[name])


def _json_kind(value: Any) -> type:
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)


def _words(settings: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, other in rule.get("settings", {}).items():
        if name not in settings:
            continue
        other, *meaning = other if isinstance(other, list) else [other]
        found[other] = _MEANINGS[meaning[0]](settings[name]) if meaning else settings[name]
    return found


# What a value of MindSpore is in PyTorch.
_MEANINGS: dict[str, Callable[[Any], Any]] = {
    "pair": lambda value: [value, value] if isinstance(value, int) else value,
    "last": lambda value: value[-1:] if isinstance(value, list) else [value],
    "lower": lambda value: value.lower() if isinstance(value, str) else value,
}


def _common_optimizer(ours: Any, theirs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Groups are written in PyTorch's words where they are recorded."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return {}, {}
    kinds = [str(one.get("class", "")).rpartition(".")[2] for one in (ours, theirs)]
    kinds[0] = _table()["optimizers"].get(kinds[0], kinds[0])
    groups = [_listed(one, "groups") for one in (ours, theirs)]
    if len(groups[0]) != len(groups[1]):  # weights with and without decay may be divided otherwise
        return {"class": kinds[0]}, {"class": kinds[1]}
    found: tuple[list[Any], list[Any]] = ([], [])
    for pair in zip(*groups):
        hyper = [_members(group, "hyper") if isinstance(group, dict) else {} for group in pair]
        both = hyper[0].keys() & hyper[1].keys()
        for side, one in zip(found, hyper):
            side.append({"parameters": [], "hyper": {name: one[name] for name in sorted(both)}})
    return {"class": kinds[0], "groups": found[0]}, {"class": kinds[1], "groups": found[1]}


@functools.cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return table
