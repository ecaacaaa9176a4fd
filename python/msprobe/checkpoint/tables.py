# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The tables in YAML: how shards become parameters, and how names of one kind become those of another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msprobe.files.yaml_file import kind_of, read_mapping
from msprobe.native import InvalidArgument, core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from typing import Any

_HERE = Path(__file__).parent
_JOINS = ("rows", "columns", "qkv")


def load_rules(path: str | None = None) -> core.CheckpointRules:
    """Those of the file, or those that come with msprobe. Raises InvalidArgument, naming the place."""
    name = str(_HERE / "rules.yaml") if path is None else path
    table = read_mapping(name)
    _check_keys(name, table, ("renamings", "merges", "vocabulary", "ignored"))
    renamings = [
        (
            _text(name, "renamings", row, "from"),
            _text(name, "renamings", row, "to"),
            _text(name, "renamings", row, "unless_present", ""),
        )
        for row in _rows(name, table, "renamings")
    ]
    merges = [
        (_texts(f"{name}: merges: patterns", row.get("patterns")), _text(name, "merges", row, "how"))
        for row in _rows(name, table, "merges")
    ]
    return core.CheckpointRules(
        renamings=renamings,
        merges=merges,
        vocabulary=_texts(f"{name}: vocabulary", table.get("vocabulary", [])),
        ignored=_texts(f"{name}: ignored", table.get("ignored", [])),
    )


@dataclass(frozen=True)
class Mapping:
    """How parameters of one naming become those of another."""

    name: str
    model_types: list[str]
    """Of the config.json of models that it is for."""
    prefixes: list[str]
    """What may stand in front of all names that it maps; the one that maps the most is taken."""
    rules: list[tuple[str, list[str], str, bool, int]]
    """to, from, join, transpose, parts: see MappingRule in msprobe/checkpoint.h."""

    def with_prefix(self, prefix: str) -> list[tuple[str, list[str], str, bool, int]]:
        return [(to, [prefix + one for one in sources], *rest) for to, sources, *rest in self.rules]  # type: ignore[misc]


def shipped_mappings() -> list[str]:
    return sorted(path.stem for path in (_HERE / "mappings").glob("*.yaml"))


def load_mapping(name: str) -> Mapping:
    """One that comes with msprobe, by its name, or that of a file. Raises InvalidArgument."""
    path = _HERE / "mappings" / f"{name}.yaml" if name in shipped_mappings() else Path(name)
    if not path.is_file():
        raise InvalidArgument(
            f"{name}: expected the file of a mapping, or one of {', '.join(shipped_mappings())}"
        )
    table = read_mapping(str(path))
    _check_keys(str(path), table, ("model_types", "prefixes", "parameters"))
    return Mapping(
        name=name,
        model_types=_texts(f"{path}: model_types", table.get("model_types", [])),
        prefixes=_texts(f"{path}: prefixes", table.get("prefixes", [""])),
        rules=[_rule(str(path), row) for row in _rows(str(path), table, "parameters")],
    )


def mapping_for_model(model_type: str) -> Mapping | None:
    """That of the mappings that come with msprobe."""
    for name in shipped_mappings():
        mapping = load_mapping(name)
        if model_type in mapping.model_types:
            return mapping
    return None


def _rule(path: str, row: dict[str, Any]) -> tuple[str, list[str], str, bool, int]:
    _check_keys(f"{path}: parameters", row, ("to", "from", "join", "transpose", "parts"))
    sources = row.get("from")
    join, transpose, parts = row.get("join", "rows"), row.get("transpose", False), row.get("parts", 1)
    if join not in _JOINS:
        raise InvalidArgument(
            f"{path}: parameters: join: expected one of {', '.join(_JOINS)}, found {join!r}"
        )
    if not isinstance(transpose, bool):
        raise InvalidArgument(
            f"{path}: parameters: transpose: expected true or false, found {kind_of(transpose)}"
        )
    if isinstance(parts, bool) or not isinstance(parts, int) or not 1 <= parts <= 1000:
        raise InvalidArgument(f"{path}: parameters: parts: expected a number from 1 to 1000")
    return (
        _text(path, "parameters", row, "to"),
        [sources] if isinstance(sources, str) else _texts(f"{path}: parameters: from", sources),
        join,
        transpose,
        parts,
    )


def _rows(path: str, table: dict[str, Any], key: str) -> list[dict[str, Any]]:
    rows = table.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidArgument(f"{path}: {key}: expected a list of mappings")
    return rows


def _check_keys(where: str, table: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise InvalidArgument(f"{where}: unknown key {key!r}, expected {', '.join(known)}")


def _text(path: str, where: str, row: dict[str, Any], key: str, otherwise: str | None = None) -> str:
    value = row.get(key, otherwise)
    if not isinstance(value, str):
        raise InvalidArgument(f"{path}: {where}: {key}: expected text, found {kind_of(value)}")
    return value


def _texts(where: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidArgument(f"{where}: expected a list of texts, found {kind_of(value)}")
    return value
