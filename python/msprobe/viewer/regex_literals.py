# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Texts that every match of a regular expression contains: a database finds those much faster."""

from __future__ import annotations

import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SHORTEST = 3
# Without regard to case these letters also stand for others: the long s, the Kelvin sign, the Turkish i.
_MANY_CASES = frozenset("sSkKiI")


def literals(pattern: str) -> list[str]:
    """The longest ones first. Empty where none is certain; the pattern must be right."""
    runs: list[str] = []
    run = ""

    def end() -> None:
        nonlocal run
        if len(run) >= _SHORTEST:
            runs.append(run)
        run = ""

    def walk(items: Any) -> None:
        nonlocal run
        for operator, value in items:
            kind = str(operator)
            if kind == "LITERAL" and value < 128 and chr(value) not in _MANY_CASES:
                run += chr(value)
                continue
            end()
            if kind == "SUBPATTERN":
                walk(value[-1])
                end()
            elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and value[0] >= 1:
                walk(value[2])
                end()

    parse = _parser().parse
    walk(parse(pattern, re.IGNORECASE))
    end()
    return sorted(runs, key=len, reverse=True)


def _parser() -> Any:
    if sys.version_info >= (3, 11):
        return re._parser  # type: ignore[attr-defined]
    import sre_parse

    return sre_parse
