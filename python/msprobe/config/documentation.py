# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What people read of the table of keys: the tables of docs/formats/config.md, and a file with comments.

`python -m msprobe.config.documentation docs/formats/config.md` writes the tables of that page anew.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.native import core

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TABLE = re.compile(r"(<!-- keys of: (?P<tasks>[a-z_. ]*)-->\n).*?(<!-- end of keys -->)", re.DOTALL)
_WIDTH = 100


def available_tasks() -> dict[str, str]:
    """Name and meaning of what can be asked for."""
    return {name: meaning for name, meaning, is_available in core.config_tasks() if is_available}


def keys_of(task: str) -> list[Mapping[str, Any]]:
    """The rows of a task, of an object inside ("monitor.alarm"), or of the top level, whose name is empty.

    Without those that have no effect.
    """
    return [row for row in core.config_keys() if _belongs(row, task) and row["origin"] != "ignored"]


def _belongs(row: Mapping[str, Any], task: str) -> bool:
    return task in row["tasks"] if task else not row["tasks"]


# ---- Markdown


def with_tables(page: str) -> str:
    """The page with the tables as they are now, between the marks `keys of: TASKS` and `end of keys`."""
    return _TABLE.sub(lambda match: f"{match[1]}\n{_table(match['tasks'].split())}\n\n{match[3]}", page)


def _table(tasks: list[str]) -> str:
    rows = [
        row
        for row in core.config_keys()
        if (set(tasks).intersection(row["tasks"]) if tasks else not row["tasks"])
    ]
    several = len(tasks) > 1
    head = ["key", *(["tasks"] if several else []), "type", "default", "meaning"]
    lines = [_line(head), "|" + "---|" * len(head)]
    for row in rows:
        if row["origin"] == "ignored":
            continue
        used_by = [task for task in tasks if task in row["tasks"]]
        of = ["all" if used_by == tasks else ", ".join(used_by)] if several else []
        own = " *" if row["origin"] == "own" else ""
        default = "none" if row["default"] is None else f"`{_json(row['default'])}`"
        lines.append(_line([f"`{row['name']}`{own}", *of, row["type"], default, _meaning(row)]))
    ignored = [_ignored(row) for row in rows if row["origin"] == "ignored"]
    notes = []
    if any(row["origin"] == "own" for row in rows):
        notes.append("`*`: a key of msprobe, which mindstudio-probe does not have (and ignores).")
    if ignored:
        notes.append(
            "Known and without effect, which a warning says where another value than the default is given:"
        )
        notes += ["", *ignored]
    return "\n".join([*lines, "", *notes]).rstrip()


def _ignored(row: Mapping[str, Any]) -> str:
    words = ", ".join(f"`{_json(word)}`" for word, _ in row["words"])
    return f"* `{row['name']}`" + (f" ({words})" if words else "") + f": {row['meaning']}"


def _meaning(row: Mapping[str, Any]) -> str:
    words = [f"`{_json(word)}` {meaning}".strip() for word, meaning in _words(row).items()]
    explained = "; " if any(_words(row).values()) else ", "
    parts = [row["meaning"], explained.join(words) + "." if words else "", _limits(row)]
    return " ".join(part for part in parts if part)


def _words(row: Mapping[str, Any]) -> dict[str, str]:
    """Word -> meaning; of tasks only those that are there."""
    words = dict(row["words"])
    return available_tasks() if row["name"] == "task" else words


def _limits(row: Mapping[str, Any]) -> str:
    text: str = row["allowed"]
    if not text and row["least"] is not None:
        text = f"{row['least']} or more" if row["most"] is None else f"{row['least']} to {row['most']}"
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _json(value: object) -> str:
    return json.dumps(value)


# ---- YAML with comments


def commented_yaml(tasks: list[str], values: Mapping[str, Any]) -> str:
    """All keys of the top level and of some tasks, each below a comment. `values`: other ones than the
    defaults.
    """
    lines: list[str] = []
    for row in keys_of(""):
        lines += _commented(row, values, "")
    for task in tasks:
        lines += [f"{task}:", *_inside(task, values, "  ")]
    return "\n".join(lines).rstrip() + "\n"


def _inside(section: str, values: Mapping[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for row in keys_of(section):
        inside = _inside(f"{section}.{row['name']}", values, indent + "  ") if row["type"] == "object" else []
        lines += _commented(row, values, indent, inside)
    return lines


def _commented(
    row: Mapping[str, Any], values: Mapping[str, Any], indent: str, inside: Sequence[str] = ()
) -> list[str]:
    """`inside`: the keys of the object that the key holds."""
    name = row["name"]
    words = _words(row)
    lines = [f"{indent}# {line}" for line in _wrapped(f"{row['meaning']} {_limits(row)}".replace("`", ""))]
    width = max((len(word) for word in words), default=0)
    if any(words.values()):
        lines += [f"{indent}#   {word:{width}}  {meaning}" for word, meaning in words.items()]
    if inside:
        return [*lines, f"{indent}{name}:", *inside]
    value = values.get(name, row["default"])
    text = value if isinstance(value, str) and re.fullmatch(r"[\w./]+", value) else _json(value)
    return [*lines, f"{indent}{name}: {text}", ""]


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text.strip(), _WIDTH)


def _main(path: Path) -> None:
    path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
