# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/verdict.md, from the code: `python -m msprobe.compare.verdict_page docs/verdict.md`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from msprobe.native import core

_TABLE = re.compile(r"(<!-- table of: (?P<name>\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with the tables as they are now, between the marks `table of: NAME` and `end of table`."""
    return _TABLE.sub(lambda match: f"{match[1]}\n{_TABLES[match['name']]()}\n\n{match[3]}", page)


def _rules() -> str:
    return _markdown(("rule", "place", "what it may be off by"), core.verdict_rules())


def _numbers() -> str:
    rows = [(f"`{name}`", f"{value:g}", source) for name, value, source in core.verdict_numbers()]
    return _markdown(("number", "value", "where it comes from"), rows)


_TABLES = {"rules": _rules, "numbers": _numbers}


def _markdown(head: tuple[str, ...], rows: list[list[str]] | list[tuple[str, str, str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
