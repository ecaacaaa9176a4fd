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
    known.pop(None, None)
    found = {}
    for rank, state in states.items():
        entries = section(state, "parameters")
        beginnings: dict[str, set[str]] = {}
        for name, entry in entries.items():
            names = known.get(_weight(entry), {name})
            if name not in names:
                here, there = _different_beginnings(name, min(names))
                beginnings.setdefault(here, set()).add(there)
        prefixes = {here: min(there) for here, there in beginnings.items() if len(there) == 1}
        renamed = [plain_to(name, prefixes) for name in entries]
        if prefixes and len(set(renamed)) == len(renamed):
            found[rank] = prefixes
    return found


def _weight(entry: Any) -> Hashable | None:
    return None if is_constant(entry) else identity(entry)


def _different_beginnings(name: str, other: str) -> tuple[str, str]:
    """Without what both end with: blocks.0.fc.weight, blocks.2.fc.weight -> blocks.0, blocks.2."""
    ours, theirs = name.split("."), other.split(".")
    while len(ours) > 1 and len(theirs) > 1 and ours[-1] == theirs[-1]:
        ours.pop()
        theirs.pop()
    return ".".join(ours), ".".join(theirs)


def plain_to(name: str, prefixes: Prefixes) -> str:
    """The longest beginning counts."""
    here = name
    while here and here not in prefixes:
        here = here.rpartition(".")[0]
    return prefixes[here] + name[len(here) :] if here else name


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
