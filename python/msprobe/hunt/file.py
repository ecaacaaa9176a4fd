# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""hunt.yaml: the options of `msprobe hunt`, a key for each; what the command line says goes before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.files.yaml_file import kind_of, read_mapping
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXTS = ("reference", "target", "output", "reference_python", "target_python", "noise")
_NUMBERS = ("stop", "limit", "max_runs", "max_time")
_VARIABLES = ("reference_env", "target_env")


def words_of(path: str) -> list[str]:
    """As they would be typed. Raises InvalidArgument that names the file, the key and what is expected."""
    return [word for key, value in read_mapping(path).items() for word in _words(path, key, value)]


def _words(path: str, key: str, value: Any) -> Iterator[str]:
    option = f"--{key.replace('_', '-')}"
    if key in _TEXTS and isinstance(value, str):
        yield from (option, value)
    elif key in _NUMBERS and type(value) is int and value >= 0:
        yield from (option, str(value))
    elif key in _VARIABLES and isinstance(value, dict):
        for name, one in value.items():
            if isinstance(one, bool) or not isinstance(one, (str, int, float)):
                raise InvalidArgument(f"{path}: {key}: {name}: expected text, found {kind_of(one)}")
            yield from (option, f"{name}={one}")
    elif key in (*_TEXTS, *_NUMBERS, *_VARIABLES):
        kind = "text" if key in _TEXTS else "a number of 0 or more" if key in _NUMBERS else "NAME: VALUE"
        raise InvalidArgument(f"{path}: {key}: expected {kind}, found {kind_of(value)}")
    else:
        known = ", ".join((*_TEXTS, *_VARIABLES, *_NUMBERS))
        raise InvalidArgument(f"{path}: {key}: expected one of {known}")
