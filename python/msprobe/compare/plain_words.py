# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is to blame, in the words of a person who knows the model and not the names of records."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from msprobe.terminal.printable import printable

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from msprobe.compare.verdict_file import Culprit

_WAY = r"(?P<way>forward|backward)"
_MODULE = re.compile(rf"(?:Module|Cell)\.(?P<path>.+)\.[^.]+\.{_WAY}\.(?P<number>\d+)(?P<item>\..*)?")
_FUNCTION = re.compile(rf"[^.]+\.(?P<path>.+)\.(?P<number>\d+)\.{_WAY}(?P<item>\..*)?")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_LONGEST_VALUE = 60


def plain(culprit: Culprit) -> str:
    """E.g. "layers.2.rot is not called by the target; the reference calls it at model.py:30"."""
    return printable(_plain(culprit))


def difference(text: str, step: int | None, rank: int | None) -> str:
    """The first line of an answer. `rank`: None where there is one rank."""
    at = [f"step {step}"] if step is not None else []
    at += [f"rank {rank}"] if rank is not None else []
    return f"First difference: {', '.join([*at, text])}"


def _plain(culprit: Culprit) -> str:
    thing, at = _thing(culprit), _at(culprit)
    called = f", called{at}" if at else ""
    ours, theirs = (str(culprit.metrics.get(side, "")) for side in ("target", "reference"))
    has_values = bool(ours or theirs) and max(len(ours), len(theirs)) <= _LONGEST_VALUE
    if culprit.kind == "missing_call" and not has_values:
        return f"{thing} is not called by the target; the reference calls it{at}"
    if culprit.kind == "extra_call" and not has_values:
        return f"{thing} is called by the target alone{at}"
    if culprit.kind in ("missing_call", "extra_call", "in_place", "clipping") or not thing:
        return culprit.reason or culprit.where
    if has_values:
        name = thing
        if culprit.kind in ("module_attribute", "optimizer_setting", "optimizer_state"):
            name, called = culprit.name, ""
        ours, theirs = _told_apart(ours or "absent", theirs or "absent")
        return f"{name} is {ours}, in the reference {theirs}{called}"
    if culprit.kind in ("operator", "reduction", "randomness"):
        from_equal = culprit.reason.startswith("what goes into")
        what = (
            "gives another result for equal inputs"
            if from_equal
            else "is off by more than its inputs explain"
        )
        return f"{thing} {what}{called}"
    if culprit.kind == "argument":
        return f"{thing} holds something else{called}"
    return culprit.reason or culprit.where


def _told_apart(a: str, b: str) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart; anything else as it is."""
    try:
        x, y = float(a), float(b)
    except ValueError:
        return a, b
    for digits in range(3, 17):
        short = f"{x:.{digits}g}", f"{y:.{digits}g}"
        if short[0] != short[1]:
            return (min(short[0], a, key=len), min(short[1], b, key=len))
    return a, b


def _at(culprit: Culprit) -> str:
    """The innermost line of the user's own code."""
    frame = next(iter(culprit.top_frames(1)), None)
    if frame is None or frame.file is None:
        return ""
    return f" at {PurePosixPath(frame.file.replace(chr(92), '/')).name}:{frame.line}"


def _thing(culprit: Culprit) -> str:
    """A module by its path, a function by its name and the module around it; else the name as it is."""
    found = _MODULE.fullmatch(culprit.name)
    if found is not None:
        thing, number = found["path"], int(found["number"])
        is_inside = f"{thing}.".startswith(f"{culprit.module}.")
        if number:
            ordinal = _ORDINALS[number] if number < len(_ORDINALS) else f"{number + 1}th"
            thing = f"the {ordinal} call of {thing}"
        if culprit.kind in ("missing_call", "extra_call") and culprit.module and not is_inside:
            thing += f" in {culprit.module}"  # one module may stand at several places
    else:
        found = _FUNCTION.fullmatch(culprit.name)
        if found is None:
            return culprit.name
        thing = found["path"].strip("_") + (f" in {culprit.module}" if culprit.module else "")
    if found["way"] == "backward":
        thing = f"the backward of {thing}"
    item = (found["item"] or "").strip(".")
    return f"{item.replace('.', ' ', 1)} of {thing}" if item else thing
