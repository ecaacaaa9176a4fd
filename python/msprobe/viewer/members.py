# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Members of a question, checked. What the page would not send is refused with a sentence that names the
member and what was expected."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import Any

from msprobe.native import InvalidArgument
from msprobe.viewer.graph_query import Wanted

_LARGEST = 2**53  # of what JSON and JavaScript hold exactly; SQLite holds more
_LONGEST_SEARCH = 1000

Asked = dict[str, Any]


def integer(asked: Asked, name: str, otherwise: int | None = None) -> int:
    value = asked.get(name)
    return otherwise if value is None and otherwise is not None else _integer(value, name)


def text(asked: Asked, name: str, otherwise: str | None = None) -> str:
    value = asked.get(name)
    return otherwise if value is None and otherwise is not None else _text(value, name)


def side(value: object, name: str = "side") -> int:
    if value not in (0, 1):
        raise _refused(name, "0 or 1", value)
    return int(value)


def node(value: object, name: str) -> tuple[int, str, int]:
    """[side, name] or [side, name, offset]."""
    if not isinstance(value, list) or len(value) not in (2, 3):
        raise _refused(name, "[side, name] of a node", value)
    offset = _integer(value[2], name) if len(value) == 3 else 0
    return side(value[0], name), _text(value[1], name), offset


def nodes(asked: Asked, name: str, most: int) -> list[tuple[int, str, int]]:
    return [node(one, name) for one in _list(asked.get(name), name)[:most]]


def places(asked: Asked, name: str) -> list[tuple[int, ...]]:
    """Of each side numbers of nodes."""
    return [_integers(one, name) for one in _list(asked.get(name), name)]


def colour(asked: Asked) -> tuple[str, list[float] | None]:
    """What to colour by, and the limits of the classes where they are not the usual ones."""
    value = asked.get("colour")
    if value is None:
        return "index", None
    if not isinstance(value, dict):
        raise _refused("colour", "an object with `by`", value)
    bounds = [number(bound) for bound in _list(value.get("bounds"), "bounds")]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        raise _refused("bounds", "up to nine finite numbers", value["bounds"])
    return text(value, "by", "index"), known or None


def workspace(asked: Asked) -> str:
    found = text(asked, "workspace", "")
    if not re.fullmatch(r"[a-z0-9]{0,16}", found):
        raise _refused("workspace", "up to 16 small letters and digits", found)
    return found


def wanted(asked: Asked) -> Wanted:
    found: Asked = {}
    for one in fields(Wanted):
        if asked.get(one.name) is not None:
            found[one.name] = _READERS[str(one.type)](asked[one.name], one.name)
    if "side" in found:
        side(found["side"])
    if len(found.get("text", "")) > _LONGEST_SEARCH:
        raise InvalidArgument(f"a search text of more than {_LONGEST_SEARCH} characters")
    return Wanted(**found)


def number(value: object) -> float | None:
    """None for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def is_unicode(value: str) -> bool:
    """JSON can say half of a character, "\\ud800". No name of a node has that, and SQLite takes none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(value: object, name: str) -> int:
    if not isinstance(value, int) or abs(value) > _LARGEST:
        raise _refused(name, "a whole number", value)
    return value


def _integers(value: object, name: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise _refused(name, "lists of whole numbers", value)
    return tuple(_integer(one, name) for one in value)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _refused(name, "a text", value)
    if not is_unicode(value):
        raise _refused(name, "a text of whole characters", value)
    return value


def _truth(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise _refused(name, "true or false", value)
    return value


def _list(value: object, name: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise _refused(name, "a list", value)
    return value or []


_READERS: dict[str, Any] = {
    "str": _text,
    "bool": _truth,
    "int": _integer,
    "int | None": _integer,
    "tuple[int, ...]": _integers,
}


def _refused(name: str, expected: str, found: object) -> InvalidArgument:
    return InvalidArgument(f"{name}: expected {expected}, found {repr(found)[:80]}")
