# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The file of `-lm`: which layers of one model have another name in the other."""

from __future__ import annotations

from msprobe.files.yaml_file import kind_of, read_mapping
from msprobe.native import InvalidArgument

_MODEL = "TopLayer"
_OLD_NAMES = {"Cell": _MODEL}


def read_layer_rules(path: str) -> dict[str, list[tuple[str, str]]]:
    """YAML: class of a layer -> path of a part inside it -> what the reference calls that part.

    `TopLayer`, or by its old name `Cell`, is the model itself. Of what the reference calls a part, all from
    the first "(" on is left out. Paths are names joined by dots. Raises InvalidArgument with file and key.
    """
    rules: dict[str, dict[str, str]] = {}
    for name, parts in read_mapping(path).items():
        if not isinstance(parts, dict):
            raise InvalidArgument(
                f"{path}: {_quoted(name)}: expected a mapping of names of its parts, found {kind_of(parts)}"
            )
        into = rules.setdefault(_OLD_NAMES.get(name, name), {})
        for part, other in parts.items():
            key = f"{path}: {_quoted(name)}"
            part_path = _part_path(part, f"{key}: the key {_quoted(part)}")
            other_path = _part_path(_without_class(other), f"{key}: {_quoted(part)}")
            known = into.setdefault(part_path, other_path)
            if known != other_path:
                raise InvalidArgument(
                    f"{key}: {_quoted(part)}: found both {_quoted(known)} and {_quoted(other_path)}, "
                    f"as {_MODEL} and {name} are the same, expected one"
                )
    return {name: list(parts.items()) for name, parts in rules.items()}


def _part_path(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{where}: expected the name of a part, found {kind_of(value)}")
    if not all(value.split(".")):
        raise InvalidArgument(f"{where}: expected names joined by dots, found {_quoted(value)}")
    return value


def _without_class(value: object) -> object:
    return value.partition("(")[0].strip() if isinstance(value, str) else value


def _quoted(value: object) -> str:
    text = str(value)
    return f'"{text[:57]}..."' if len(text) > 60 else f'"{text}"'
