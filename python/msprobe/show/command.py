# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe show: what is in a file? Exit code 0, or 2 on errors."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from msprobe.terminal.colour import Paint
from msprobe.terminal.command_line import Parser, add_place, add_screen
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from msprobe.sources.source import Entry, Row, Source

_MOST_ROWS = 40

_EPILOG = """exit code: 0 it was shown, 2 an error.
FILE: a .npy, .pt, .safetensors or .vis.db file, dump.json, stack.json, construct.json, a pack of the config
check, a JSON file, a table (.csv); or a folder of msprobe run, with a dump, a checkpoint of any layout, or
RL key data.
NAME: a tensor, parameter, record, item of a record, table, node or entry; with * or ? all that match are
listed.
example: msprobe show run_a Functional.linear.0.forward
         msprobe show model.safetensors '*.q_proj.weight'"""


def main(arguments: list[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(arguments)
    from msprobe.native import log_on_stderr
    from msprobe.sources.opening import open_source

    with log_on_stderr("ERROR" if asked.quiet else "WARNING"):
        source = open_source(asked.file, asked.step, asked.rank)
        result = _found(source, asked.name)
        if asked.quiet:
            return 0
        if isinstance(result, list):
            _print_rows(source, result, asked)
        else:
            _print_entry(source, result, asked)
    return 0


def _found(source: Source, name: str | None) -> list[Row] | Entry:
    from msprobe.sources.other_sources import DatabaseSource
    from msprobe.sources.source import Row, is_pattern, matching

    if name is None:
        only = source.only()
        return source.rows() if only is None else only
    if not is_pattern(name):
        return source.entry(name)
    rows = matching(source.rows(), name)
    if isinstance(source, DatabaseSource):
        rows += [Row(node, "node", {"name": node}) for node in source.node_names(name)]
    if not rows:
        rows = matching([Row(one, "", {"name": one}) for one in source.names()], name)
    if not rows:
        raise source.missing(name)
    return rows


def shown(
    file: str, name: str | None, step: int | None = None, rank: int | None = None
) -> tuple[str, list[dict[str, Any]]]:
    """A title and rows of what is in a file, or in an entry of it, for msprobe.show()."""
    from msprobe.sources.opening import open_source
    from msprobe.sources.source import Text

    source = open_source(file, step, rank)
    result = _found(source, name)
    if isinstance(result, list):
        return source.title(), [{"name": row.name, "text": row.text} for row in result]
    if isinstance(result, Text):
        return result.name, [{"text": line} for line in result.lines]
    from msprobe.tensors.measuring import measure
    from msprobe.tensors.text import measured_lines

    return result.name, [{"text": line} for line in measured_lines(result, measure(result))]


def _print_rows(source: Source, rows: list[Row], asked: argparse.Namespace) -> None:
    if asked.json:
        data = {"kind": source.kind, "path": source.path, "title": source.title()}
        _print_json({**data, "entries": [row.data for row in rows]})
        return
    paint = Paint(sys.stdout)
    print(paint.strong(printable(source.title())))
    shown = rows if asked.all else rows[:_MOST_ROWS]
    width = min(max([0, *(len(row.name) for row in shown)]), 80)
    for row in shown:
        print(f"  {printable(row.name):{width}}  {printable(row.text)}".rstrip())
    if len(shown) < len(rows):
        print(f"  and {len(rows) - len(shown)} more (--all)")


def _print_entry(source: Source, entry: Entry, asked: argparse.Namespace) -> None:
    from msprobe.sources.source import Text

    if isinstance(entry, Text):
        if asked.json:
            _print_json({"kind": "entry", "path": source.path, **entry.data})
            return
        lines = entry.lines
    else:
        from msprobe.tensors.measuring import measure
        from msprobe.tensors.text import measured_lines

        measured = measure(entry)
        if asked.json:
            from msprobe.sources.as_json import tensor_data

            _print_json({"kind": "tensor", "path": source.path, **tensor_data(entry, measured)})
            return
        lines = measured_lines(entry, measured)
    print(Paint(sys.stdout).strong(printable(entry.name)))
    for line in lines:
        print(f"  {printable(line)}".rstrip())


def _print_json(data: dict[str, Any]) -> None:
    from msprobe.files.page import strict

    print(json.dumps(strict(data), indent=1, allow_nan=False))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="msprobe show",
        description="Shows what is in a file: its entries, or one of them; of a tensor statistics and a "
        "histogram.",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="file or folder")
    add("name", metavar="NAME", nargs="?", help="an entry of it")
    add_place(parser)
    add("--all", action="store_true", help=f"list all entries, not the first {_MOST_ROWS}")
    add_screen(parser, "print JSON, with all entries")
    return parser
