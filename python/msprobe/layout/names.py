# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Names of one run in the words of another, where the stages of a pipeline number their layers anew, or hold
a tied weight under a second name. The first weights tell: equal ones have one name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msprobe.layout.job import section
from msprobe.layout.tensor_entry import identity, is_constant

if TYPE_CHECKING:
    from collections.abc import Hashable

    from msprobe.layout.job import State

    Prefixes = dict[str, str]
    """Beginning of a name -> that of the other run."""


def other_names(states: dict[int, State], others: dict[int, State]) -> dict[int, Prefixes]:
    """By rank of `states`, what is called otherwise in `others`. Both: of the first step. A weight of one
    number only, as a norm begins with, is called as what stands beside it is.
    """
    known: dict[Hashable, set[str]] = {}
    for state in others.values():
        for name, entry in section(state, "parameters").items():
            known.setdefault(_weight(entry), set()).add(name)
    found = {}
    for rank, state in states.items():
        entries = section(state, "parameters")
        pairs = [
            _different_beginnings(name, min(names))
            for name, entry in entries.items()
            if (names := known.get(_weight(entry), set())) and _weight(entry) and name not in names
        ]
        prefixes = {here: there for here, there in pairs if _is_one(here, there, pairs)}
        renamed = [plain_to(name, prefixes) for name in entries]
        if prefixes and len(set(renamed)) == len(renamed):
            found[rank] = prefixes
    return found


def _weight(entry: Any) -> Hashable | None:
    return None if is_constant(entry) else identity(entry)


def _is_one(here: str, there: str, pairs: list[tuple[str, str]]) -> bool:
    return all(other == there for name, other in pairs if name == here)


def _different_beginnings(name: str, other: str) -> tuple[str, str]:
    """Without what both end with: blocks.0.fc.weight, blocks.2.fc.weight -> blocks.0, blocks.2."""
    ours, theirs = name.split("."), other.split(".")
    while len(ours) > 1 and len(theirs) > 1 and ours[-1] == theirs[-1]:
        ours.pop()
        theirs.pop()
    return ".".join(ours), ".".join(theirs)


def plain_to(name: str, prefixes: Prefixes) -> str:
    """The longest beginning counts."""
    for here in sorted(prefixes, key=len, reverse=True):
        if name == here or name.startswith(f"{here}."):
            return prefixes[here] + name[len(here) :]
    return name


def renamed(value: Any, prefixes: Prefixes) -> Any:
    """A state, or a part of it: all keys, and the names that a group of an optimizer lists."""
    if isinstance(value, dict):
        return {
            plain_to(key, prefixes): [plain_to(str(name), prefixes) for name in one]
            if key == "parameters" and isinstance(one, list)
            else renamed(one, prefixes)
            for key, one in value.items()
        }
    return [renamed(one, prefixes) for one in value] if isinstance(value, list) else value
