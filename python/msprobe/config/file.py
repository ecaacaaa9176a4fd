# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The configuration file, JSON or YAML, as an object; what it says is the concern of loading.py."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, NoReturn

from msprobe.files.yaml_file import read_mapping
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_FILE = 1 << 30


class MalformedConfig(InvalidArgument, RuntimeError):
    """The file holds no JSON. Also a RuntimeError, as the existing tool raises here."""


def read_object(path: str) -> dict[str, object]:
    """The object in `path`, a file *.json, *.yaml or *.yml. Raises InvalidArgument, and MalformedConfig for
    what is no JSON.
    """

    def fail(problem: str) -> NoReturn:
        raise InvalidArgument(f"{path}: {problem}")

    def fail_to_parse(problem: str) -> NoReturn:
        raise MalformedConfig(f"{path}: {problem}")

    def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(pairs)
        if len(result) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            fail(f'"{twice}": the key stands twice in one object, expected once')
        return result

    if path.endswith((".yaml", ".yml")):
        return read_mapping(path)
    if not path.endswith(".json"):
        fail("expected the name of a configuration file to end in .json, .yaml or .yml")
    try:
        text = _read_bytes(path, fail).decode("utf-8-sig")
        content = json.loads(text, object_pairs_hook=without_duplicates)
    except InvalidArgument:
        raise
    except UnicodeDecodeError as error:
        fail_to_parse(f"byte {error.start}: expected UTF-8 text")
    except json.JSONDecodeError as error:
        fail_to_parse(f"line {error.lineno}, column {error.colno}: expected JSON: {error.msg}")
    except RecursionError:
        fail_to_parse("expected JSON: nested too deeply")
    except ValueError as error:  # a number with thousands of digits
        fail_to_parse(f"expected JSON: {error}")
    if not isinstance(content, dict):
        fail(f"expected a JSON object, found a {type(content).__name__}")
    return content


def _read_bytes(path: str, fail: Callable[[str], NoReturn]) -> bytes:
    if os.path.islink(path):
        fail("expected a file, found a symbolic link")
    try:
        # Not to hang on a named pipe, the file is opened without waiting and looked at before it is read.
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        fail(f"cannot read the configuration file: {reason}")
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            fail("expected a regular file")
        if status.st_size > _LARGEST_FILE:
            fail(f"expected at most 1 GiB, found {status.st_size} bytes")
        return file.read()
