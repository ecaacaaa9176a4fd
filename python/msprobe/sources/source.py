# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A file or folder with named entries."""

from __future__ import annotations

import difflib
import fnmatch
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msprobe.tensors.content import Content


@dataclass(frozen=True)
class Row:
    """One entry of a listing. `data`: for programs."""

    name: str
    text: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Text:
    """An entry that is no tensor: lines for a person, and the same for programs."""

    name: str
    lines: list[str]
    data: dict[str, Any]


Entry = Union["Content", Text]


class Source:
    """`kind`: what it is, in a word or two. `path`: as the user gave it. `others`: what stands in that path
    beside the part that was opened, in a few words; empty: nothing.
    """

    kind = ""
    others = ""

    def __init__(self, path: str) -> None:
        self.path = path

    def title(self) -> str:
        """What it is, in one line."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        """All entries, in the order of the file. No tensor is read."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """Those that entry() takes and that are not in rows(), too."""
        return []

    def entry(self, name: str) -> Entry:
        """Raises InvalidArgument where there is none."""
        raise NotImplementedError

    def only(self) -> Entry | None:
        """The one entry of a file that has a single one without a name."""
        return None

    def difference(self, other: Source, name: str) -> str | None:
        """How an entry that both have differs, in a few words; empty: it does not. None: entry() of both
        tells.
        """
        return None

    def missing(self, name: str) -> InvalidArgument:
        """The error for a name that is not there."""
        known = list(dict.fromkeys([*(row.name for row in self.rows()), *self.names()]))
        close = difflib.get_close_matches(name, known[:100_000], n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else f"it has {len(known)} entries"
        return InvalidArgument(f"{self.path}: there is no {name}; {hint}")


def is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def matching(rows: Iterable[Row], pattern: str) -> list[Row]:
    """`*` stands for any text, `?` for a character."""
    return [row for row in rows if fnmatch.fnmatchcase(row.name, pattern.replace("[", "[[]"))]
