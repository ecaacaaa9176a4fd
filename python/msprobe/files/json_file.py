# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Small JSON files that a user writes: compare.json."""

from __future__ import annotations

import json
import os
from pathlib import Path

from msprobe.native import FormatError, InvalidArgument, core, log

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any


def read_object(path: str, what: str) -> Mapping[str, Any]:
    """The object in a file. `what`: its meaning, "an object with "npu_path"", for messages.

    Raises FormatError and IoError that name the file.
    """
    content = core.read_json(path)
    if not isinstance(content, dict):
        raise FormatError(f"{path}: expected {what}, found {shown(content)}")
    return content


def warn_of_unknown_keys(path: str, content: Mapping[str, Any], known: Collection[str]) -> None:
    """Says which keys are ignored."""
    for key in content:
        if key not in known:
            log.warning('%s: "%s" is ignored: there is no such key', path, key[:60])


def read_flag(path: str, content: Mapping[str, Any], key: str, *, default: bool) -> bool:
    """A bool. Raises InvalidArgument."""
    value = content.get(key, default)
    if not isinstance(value, bool):
        raise InvalidArgument(f'{path}: "{key}": expected true or false, found {shown(value)}')
    return value


def read_path(path: str, content: Mapping[str, Any], key: str) -> Path:
    """The name of a file or folder that exists. Raises InvalidArgument."""
    if key not in content:
        raise InvalidArgument(f'{path}: "{key}": expected a path, found no such key')
    value = content[key]
    if not isinstance(value, str) or not value or "\0" in value:
        raise InvalidArgument(f'{path}: "{key}": expected a path, found {shown(value)}')
    if not os.path.exists(value):
        raise InvalidArgument(f'{path}: "{key}": there is no {value}')
    return Path(value)


def shown(value: object) -> str:
    """A value of a file for a message, in one short line."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
