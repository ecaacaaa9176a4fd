# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes of a graph of MindSpore, as its text has them, and the files of their values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.files.appending import csv_text
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.csv_cells import cells_of, unguarded
from msprobe.files.regular_file import read_text
from msprobe.files.result_time import unused_time
from msprobe.native import FormatError, InvalidArgument, IoError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LARGEST = 1 << 30  # bytes of a graph, or of a table
_STATISTICS = "statistic.csv"
_NAMES = "mapping.csv"  # beside files whose names were too long: number.npy,name
_COLUMNS = ("Code Stack", "Scope Name")

# "%1(equiv_9_x) = PrimFunc_MatMul(", then lines of "# Fullname with scope: (...)" and "# In file ...".
_NODE = re.compile(r"\s*%\d+\(\S+?\)\s*=\s*\S+?\(")
_ID = re.compile(r'cnode_primal_attrs:\s*\{[^}]*?\b(forward_unique_id|unique_id):\s*"(\d+)"')
_SCOPE = re.compile(r"\s*#.*scope.*?:\s*\((.*)\)", re.IGNORECASE)
_LINE = re.compile(r"\s*#\s*(In file .*?)/?\s*$")


@dataclass
class Node:
    scope: str
    """ "Default/network-Net/fc1-Dense/MatMul-op0"."""
    lines: list[str]
    """Of the program, the outermost first."""
    number: str = ""
    """What a node of a backward pass shares with that of its forward pass."""


def read_graph(path: str) -> list[Node]:
    """Its nodes that have a scope. Raises IoError, and FormatError for a file without one."""
    nodes: list[Node] = []
    number = ""
    is_inside = False
    for line in _text(path).splitlines():
        if _NODE.match(line):
            found = _ID.search(line)
            number, is_inside = (found[2] if found else ""), True
        elif is_inside and (scope := _SCOPE.match(line)):
            nodes.append(Node(scope[1], [], number))
            is_inside = False
        elif nodes and not is_inside and (code := _LINE.match(line)):
            nodes[-1].lines.append(code[1])
    if not nodes:
        raise FormatError(f"{path}: expected a graph that MindSpore saved, with nodes and their scopes")
    forward = {node.number: node for node in nodes if node.number and not node.scope.startswith("Gradients")}
    for node in nodes:
        if node.scope.startswith("Gradients") and node.number in forward:
            node.lines = forward[node.number].lines
    return nodes


def finder(nodes: Iterable[Node]) -> Callable[[str], tuple[str, str]]:
    """name of a kernel -> lines of the program and scopes, of all nodes whose names are in it: several were
    fused.
    """
    by_name = {node.scope.replace("/", "_"): node for node in nodes}

    @cache
    def find(name: str) -> tuple[str, str]:
        found = []
        for key, node in by_name.items():
            at = name.find(key)
            if at >= 0 and not name[at + len(key) :][:1].isdigit():  # op1 is not in op10
                found.append((at, node))
        found.sort(key=lambda one: one[0])
        lines = [line for _, node in found for line in node.lines]
        return "\n".join(lines), "\n".join(node.scope for _, node in found)

    return find


def map_data(graph: str, data: str, output: str) -> list[Path]:
    """Writes code_mapping_{time}.csv for .npy files; where there are none, adds columns to each
    statistic.csv. Returns the files. Raises InvalidArgument where there is neither; FormatError, IoError.
    """
    find = finder(read_graph(graph))
    place = Path(data)
    arrays = sorted(place.rglob("*.npy")) if place.is_dir() else [place] * (place.suffix == ".npy")
    if arrays:
        rows = [[str(path.resolve()), *find(_kernel(path))] for path in arrays]
        folder = make_directory(output)
        time = unused_time(lambda text: (folder / f"code_mapping_{text}.csv").exists())
        written = folder / f"code_mapping_{time}.csv"
        write_text(written, csv_text([["File Path", *_COLUMNS], *rows]))
        return [written]
    tables = sorted(place.rglob(_STATISTICS)) if place.is_dir() else [place] * (place.name == _STATISTICS)
    if not tables:
        raise InvalidArgument(f"{data}: expected .npy files or {_STATISTICS}, found neither")
    for table in tables:
        _add_columns(table, find)
    return tables


def _kernel(path: Path) -> str:
    """ "Default_..._MatMul-op0" of "MatMul.Default_..._MatMul-op0.0.0.1699.input.0.npy"."""
    name = path.stem
    if name.isdigit():
        names = {row[0]: row[1] for row in _rows(path.with_name(_NAMES)) if len(row) > 1}
        name = names.get(path.name, name)
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else name


def _add_columns(path: Path, find: Callable[[str], tuple[str, str]]) -> None:
    header, *rows = _rows(path) or [[]]
    header = [name for name in header if name]  # it may end with a comma
    if "Op Name" not in header:
        raise FormatError(f'{path}: expected a column "Op Name", found {", ".join(header[:6])}')
    at = header.index("Op Name")
    kept = [i for i, name in enumerate(header) if name not in _COLUMNS]
    table = [[*(header[i] for i in kept), *_COLUMNS]]
    for row in rows:
        cells = row + [""] * (len(header) - len(row))
        table.append([*(cells[i] for i in kept), *find(cells[at])])
    write_text(path, csv_text(table))


def _rows(path: Path) -> list[list[str]]:
    return [[unguarded(cell) for cell in row] for row in cells_of(_text(str(path)), path) if row]


def _text(path: str) -> str:
    try:
        return read_text(path, _LARGEST, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: byte {error.start}: expected UTF-8 text") from error
    except OSError as error:
        raise IoError(f"{path}: cannot be read: {error.strerror or error}") from error
