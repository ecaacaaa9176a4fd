# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""JSON that is put together from parts that are text already."""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as _quoted  # what json.dumps() does with a text


class Json(str):
    """Text that is JSON."""

    __slots__ = ()


def json_text(value: object) -> str:
    """As json.dumps() writes it; a Json in it, in dicts with texts as keys and in lists, stands as it is."""
    if isinstance(value, str):
        return value if isinstance(value, Json) else _quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_quoted(key)}: {json_text(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return json.dumps(value)
