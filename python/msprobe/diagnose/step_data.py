# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The data of a step by the names that the program has for them: a culprit that is such a value is told by
its name, and so are the others that differ.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any

from msprobe.native import Error, core

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.compare.culprit import Culprit
    from msprobe.compare.pair_result import PairResult

_MAY_BE_DATA = ("argument", "input_data")  # kinds of culprits
_MOST_NAMES = 5
_FILE = "diagnosis.json"
_FORM_WITH_DIGEST = 2
_DIGEST = slice(1, 9)


def names_of(culprit: Culprit, pair: PairResult) -> tuple[str, list[str]]:
    """What the program calls the value that a culprit is, where that is one of the data of the step that
    differ; and the others, in the order in which the program has them.
    """
    if culprit.kind not in _MAY_BE_DATA:
        return "", []
    differing = _differing(pair)
    value = _identity(_value_of(culprit, pair) or {}) if differing else None
    names = [name for name, one in differing.items() if value is not None and _identity(one) == value]
    others = [name for name in differing if name not in names]
    return (names[0], others[:_MOST_NAMES]) if names else ("", [])


def _differing(pair: PairResult) -> dict[str, dict[str, Any]]:
    """Names that both runs have with values that are not equal, in the order of the calls of the model; what
    they are in the target. What cannot be read counts as not there.
    """
    ours, theirs = (_entries(path.with_name(_FILE)) for path in (pair.target, pair.reference))
    return {name: one for name, one in ours.items() if name in theirs and _differ(one, theirs[name])}


def _value_of(culprit: Culprit, pair: PairResult) -> dict[str, Any] | None:
    if culprit.kind == "input_data":
        place = culprit.name.removeprefix("inputs.")
        number, _, rest = place.partition(".")
        call, place = (int(number), rest) if number.isdecimal() else (0, place)
        calls = _calls(pair.target.with_name(_FILE))
        return _object(_object(calls[call]).get("tensors")).get(place) if call < len(calls) else None
    if not culprit.record:
        return None
    try:
        record = json.loads(core.read_trace(pair.target).record(culprit.record))
    except (Error, ValueError):
        return None
    return _leaf(record, culprit.name.removeprefix(f"{culprit.record}.").split("."))


def _calls(path: Path) -> list[Any]:
    try:
        content = core.read_json(path)
    except Error:
        return []
    calls = _object(content).get("inputs")
    return calls if isinstance(calls, list) else []


def _entries(path: Path) -> dict[str, dict[str, Any]]:
    """By name; of later calls what the first one had not, as another value."""
    found: dict[str, dict[str, Any]] = {}
    for number, call in enumerate(_calls(path)):
        for name, entry in _object(_object(call).get("data")).items():
            found[name if name not in found else f"{name} (call {number})"] = _object(entry)
    return found


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _leaf(record: Any, path: list[str]) -> dict[str, Any] | None:
    """ "input.1" or "input.out" of a record of dump.json."""
    if len(path) < 2 or path[0] != "input":
        return None
    part = "input_args" if path[1].isdecimal() else "input_kwargs"
    value = _object(record).get(part)
    for step in path[1:]:
        if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            value = _object(value).get(step)
    return value if isinstance(value, dict) else None


def _differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Of two entries of diagnosis.json."""
    for key in ("dtype", "shape"):
        if one.get(key) != other.get(key):
            return True
    if "crc32" in one and "crc32" in other:
        return bool(one["crc32"] != other["crc32"])
    identities = [_identity(entry) for entry in (one, other)]
    return identities[0] != identities[1] if all(identities) else one != other


def _identity(entry: dict[str, Any]) -> object:
    """Equal for equal tensors of any shape, in either file: the digest, of a single element its value. None:
    nothing tells it.
    """
    digest = _digest(entry)
    if digest or entry.get("shape") != []:
        return digest or None
    value = entry.get("max", entry.get("Max"))
    return (float(value), entry.get("dtype")) if isinstance(value, (int, float)) else None


def _digest(entry: dict[str, Any]) -> bytes:
    """Empty: there is none."""
    try:
        content = base64.b64decode(entry.get("sketch", ""), validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""
    has_digest = content[:1] == bytes([_FORM_WITH_DIGEST])
    return content[_DIGEST] + str(entry.get("dtype")).encode() if has_digest else b""
