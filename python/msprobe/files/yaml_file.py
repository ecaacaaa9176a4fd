# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Tables in YAML: plain values only, nothing is executed."""

from __future__ import annotations

import os

from msprobe.native import FormatError, InvalidArgument, IoError, core


def read_mapping(path: str) -> dict[str, object]:
    """The mapping in `path`, at most 10 MiB. Raises InvalidArgument that names the file and the place."""
    try:
        content = core.read_yaml(path)
    except FormatError as error:
        raise InvalidArgument(str(error)) from error
    except IoError as error:
        reason = os.strerror(error.errno or 0)
        raise InvalidArgument(f"{path}: cannot read the YAML file: {reason}") from error
    if not isinstance(content, dict):
        raise InvalidArgument(f"{path}: expected a YAML mapping, found {kind_of(content)}")
    return content


def kind_of(value: object) -> str:
    """The type of a YAML value in words."""
    if value is None:
        return "nothing"
    names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number"}
    return names.get(type(value), f"a {type(value).__name__}")
