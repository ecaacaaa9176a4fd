# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A value of a configuration with the place it stands at, and the checks that several keys need.

Each check returns the value in its final type, or raises InvalidArgument with file, key, what was expected
and what was found.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Literal, NoReturn, TypeVar, cast

from msprobe.native import InvalidArgument, log

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Level = Literal["L0", "L1", "L2", "mix", "debug"]
_Word = TypeVar("_Word", bound=str)


@dataclass(frozen=True)
class Value:
    """A value of the configuration together with where it comes from, for messages."""

    where: str  # the file, or "PrecisionDebugger()"
    key: str  # e.g. "grad_probe.bounds"
    value: object

    def fail(self, problem: str) -> NoReturn:
        raise InvalidArgument(f'{self.where}: "{self.key}": {problem}')

    def warn(self, text: str) -> None:
        log.warning('%s: "%s": %s', self.where, self.key, text)

    @property
    def found(self) -> str:
        """The value as a message shows it."""
        text = repr(self.value)
        return f"found {text if len(text) <= 60 else text[:57] + '...'}"


@dataclass(frozen=True)
class TopLevel:
    """The keys beside the section that decide what a section may hold."""

    level: Level = "L1"
    async_dump: bool = False
    extra_info: bool = True


@dataclass(frozen=True)
class Section:
    """The part of the file that belongs to one task."""

    where: str
    name: str
    values: Mapping[str, object]
    top: TopLevel = TopLevel()

    def get(self, key: str, default: object) -> Value:
        return Value(self.where, f"{self.name}.{key}", self.values.get(key, default))

    def given(self, keys: Iterable[str]) -> Section:
        """The section with those of `keys` that it has; null counts as not given."""
        values = {key: self.values[key] for key in keys if self.values.get(key) is not None}
        return replace(self, values=values)

    def allow_only(self, keys: Iterable[str]) -> None:
        known = tuple(keys)
        for key in self.values:
            if key not in known:
                expected = did_you_mean(key, known) or f"expected one of {', '.join(known)}"
                self.get(key, None).fail(f"unknown key: {expected}")


@dataclass(frozen=True)
class Words(Generic[_Word]):
    """The words that a key allows."""

    allowed: tuple[_Word, ...]

    def one(self, value: Value, problem: str = "expected one of") -> _Word:
        """`problem`: the beginning of the message."""
        word = next((word for word in self.allowed if word == value.value), None)
        if word is None:
            value.fail(f"{problem} {', '.join(self.allowed)}, {value.found}")
        return word

    def several(self, value: Value) -> tuple[_Word, ...]:
        """For a list of them, or ["all"]: what it names, in the order of `allowed`."""
        names = f'a list out of {", ".join(self.allowed)}, or ["all"]'
        if not isinstance(value.value, list) or not all(isinstance(word, str) for word in value.value):
            value.fail(f"expected {names}, {value.found}")
        words: list[str] = value.value
        if words == ["all"]:
            return self.allowed
        if "all" in words:
            value.fail(f'expected "all" alone in the list, {value.found}')
        for word in words:
            if word not in self.allowed:
                value.fail(f"expected {names}, found {word!r} in it")
        if len(words) > len(self.allowed):
            value.fail(f"expected at most {len(self.allowed)} entries, {value.found}")
        return tuple(word for word in self.allowed if word in words)


def switch(value: Value) -> bool:
    if not isinstance(value.value, bool):
        value.fail(f"expected true or false, {value.found}")
    return value.value


def texts(value: Value, problem: str = "expected a list of strings") -> tuple[str, ...]:
    """A list of strings. `problem`: the beginning of the message for anything but a list."""
    if not isinstance(value.value, list):
        value.fail(f"{problem}, {value.found}")
    for element in cast("list[object]", value.value):
        if not isinstance(element, str):
            Value(value.where, value.key, element).fail(
                f"expected a list of strings, found {element!r} in it"
            )
    return tuple(cast("list[str]", value.value))


def did_you_mean(word: str, known: Iterable[str], closeness: float = 0.6) -> str:
    """`did you mean "..."?`, or "" when nothing is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=closeness)
    return f'did you mean "{close[0]}"?' if close else ""
