# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Settings in YAML: plain values only, nothing is executed."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from msprobe.native import InvalidArgument, UnsupportedError

if TYPE_CHECKING:
    from types import ModuleType

_LARGEST_FILE = 10 << 20


def read_mapping(path: str) -> dict[str, object]:
    """The mapping in `path`, at most 10 MiB. Raises InvalidArgument that names the file and the place."""
    yaml = _import_yaml()
    text = _read_text(path)
    try:
        content = yaml.load(text, Loader=_loader(yaml))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InvalidArgument(f"{path}: {where}expected YAML: {problem}") from error
    except RecursionError as error:
        raise InvalidArgument(f"{path}: expected YAML: nested too deeply") from error
    except ValueError as error:  # a date that is none, a number with thousands of digits
        raise InvalidArgument(f"{path}: expected YAML: {error}") from error
    if not isinstance(content, dict):
        raise InvalidArgument(f"{path}: expected a YAML mapping, found {kind_of(content)}")
    for key in content:
        if not isinstance(key, str):
            raise InvalidArgument(f"{path}: expected keys that are text, found {str(key)[:60]}")
    return content


def kind_of(value: object) -> str:
    """The type of a YAML value in words."""
    if value is None:
        return "nothing"
    names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number"}
    return names.get(type(value), f"a {type(value).__name__}")


def _import_yaml() -> ModuleType:
    try:
        import yaml
    except ImportError as error:
        raise UnsupportedError(
            "a file in YAML needs the package PyYAML, which is not installed: `pip install PyYAML`"
        ) from error
    return yaml


def _loader(yaml: Any) -> Any:
    """The safe loader, that refuses a key which stands twice."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if key.value.__hash__ is not None and (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        None,
                        None,
                        f'"{key.value}" stands twice in one mapping, expected once',
                        key.start_mark,
                    )
                if isinstance(key.value, str):
                    seen.add((key.tag, key.value))
            return super().construct_mapping(node, deep)

    return Loader


def _read_text(path: str) -> str:
    try:
        # Not to hang on a named pipe, the file is opened without waiting and looked at before it is read.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidArgument(f"{path}: expected a regular file with YAML")
            if status.st_size > _LARGEST_FILE:
                raise InvalidArgument(
                    f"{path}: expected at most 10 MiB of YAML, found {status.st_size} bytes"
                )
            return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path}: byte {error.start}: expected UTF-8 text") from error
    except OSError as error:
        raise InvalidArgument(f"{path}: cannot read the YAML file: {error.strerror}") from error
