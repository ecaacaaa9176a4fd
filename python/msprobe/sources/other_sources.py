# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Packs of the config check, databases, records of RL key data, small JSON files, tables."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from msprobe.files.csv_cells import cells_of
from msprobe.files.regular_file import open_to_read
from msprobe.native import FormatError, UnsupportedError, core
from msprobe.sources.source import Entry, Row, Source, Text
from msprobe.tensors.content import open_tensor_file
from msprobe.tensors.text import size_text

_LONGEST = 20_000  # characters of an entry on the screen
_LARGEST_JSON = 1 << 20


class PackSource(Source):
    """A pack of the config check."""

    kind = "pack"

    def __init__(self, path: str) -> None:
        from msprobe.config_check.packs.pack_reader import read_pack

        super().__init__(path)
        self._pack = read_pack(path)

    def title(self) -> str:
        made = "msprobe" if self._pack.is_ours else "mindstudio-probe"
        return f"{self.path}: a pack of the config check, made by {made}, {len(self.rows())} entries"

    def rows(self) -> list[Row]:
        rows = []
        for name in self._pack.names():
            entry = self._pack.entry(name)
            size = 0 if entry is None else entry[3]
            rows.append(Row(name, size_text(size), {"name": name, "bytes": size}))
        return rows

    def entry(self, name: str) -> Entry:
        text = self._pack.text(name)
        if text is None:
            raise self.missing(name)
        value: Any = text
        try:
            value = json.loads(text)
            text = json.dumps(value, indent=1, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
        return Text(name, _lines(text), {"name": name, "content": value})


def _lines(text: str) -> list[str]:
    lines = text[:_LONGEST].splitlines()
    return [*lines, "..."] if len(text) > _LONGEST else lines


class DatabaseSource(Source):
    """A SQLite file: the result of a graph comparison (.vis.db), or another one."""

    kind = "database"

    def __init__(self, path: str) -> None:
        from msprobe.viewer.result_file import connect, damage

        super().__init__(path)
        self._damage = damage
        with damage(Path(path)):
            self._connection = connect(Path(path))
            names = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            self._tables = sorted(str(name) for (name,) in names)

    def _ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        from msprobe.viewer.result_file import time_limit

        with self._damage(Path(self.path)), time_limit(self._connection):
            return self._connection.execute(sql, values).fetchall()

    @property
    def is_graph(self) -> bool:
        return "tb_nodes" in self._tables

    def title(self) -> str:
        what = "the result of a graph comparison" if self.is_graph else "a SQLite database"
        more = "; `msprobe view` shows it in the browser" if self.is_graph else ""
        return f"{self.path}: {what} with {len(self._tables)} tables{more}"

    def rows(self) -> list[Row]:
        from msprobe.viewer.result_file import answering

        rows = []
        with answering():
            for table in self._tables:
                ((count,),) = self._ask(f"SELECT count(*) FROM {_quoted(table)}")
                rows.append(Row(table, f"{count} rows", {"name": table, "rows": count}))
        return rows

    def node_names(self, pattern: str) -> list[str]:
        """Of a graph, where `*` and `?` stand for any text and a character."""
        if not self.is_graph:
            return []
        sql = "SELECT DISTINCT node_name FROM tb_nodes WHERE node_name GLOB ? LIMIT 1000"
        return [str(name) for (name,) in self._ask(sql, pattern.replace("[", "[[]"))]

    def entry(self, name: str) -> Entry:
        if name in self._tables:
            return self._rows_of(name, f"SELECT * FROM {_quoted(name)} LIMIT 10")
        if self.is_graph:
            found = self._rows_of(name, "SELECT * FROM tb_nodes WHERE node_name = ? LIMIT 10", name)
            if found.data["rows"]:
                return found
        raise self.missing(name)

    def difference(self, other: Source, name: str) -> str:
        """Row by row: of a graph by the names of nodes, else by their places."""
        assert isinstance(other, DatabaseSource)
        order = "node_name, step, rank" if name == "tb_nodes" else "rowid"
        sql = f"SELECT * FROM {_quoted(name)} ORDER BY {order}"
        ours, theirs = (side._ask(sql) for side in (self, other))
        differing = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
        if len(ours) != len(theirs):
            return f"{len(ours)} and {len(theirs)} rows"
        return f"{len(differing)} of {len(ours)} rows differ, first row {differing[0]}" if differing else ""

    def _rows_of(self, name: str, sql: str, *values: Any) -> Text:
        self._connection.row_factory = sqlite3.Row
        try:
            rows = [{key: row[key] for key in row.keys()} for row in self._ask(sql, *values)]  # type: ignore[attr-defined]  # noqa: SIM118
        finally:
            self._connection.row_factory = None
        shown = [{key: _cell(value) for key, value in row.items()} for row in rows]
        lines: list[str] = []
        for row in shown:
            width = max(map(len, row))
            lines += [f"{key:{width}}  {_short(value)}" for key, value in row.items()] + [""]
        return Text(name, lines[:-1], {"name": name, "rows": shown})


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cell(value: Any) -> Any:
    """JSON in cells becomes what it stands for."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)
    return text if len(text) <= 400 else text[:400] + " ..."


class RlSource(Source):
    """A record of SingleSave."""

    kind = "RL record"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._keys = core.rl_keys(path)

    def title(self) -> str:
        return (
            f"{self.path}: key data of reinforcement learning, {len(self._keys)} keys; `msprobe rl_compare`"
        )

    def _files(self, key: str) -> list[Path]:
        """In the order of steps, ranks and micro-steps."""
        return [Path(file) for _, file in core.rl_arrays(self.path, key)]

    def rows(self) -> list[Row]:
        rows = []
        for key in self._keys:
            found = core.rl_arrays(self.path, key)
            steps = len({place[0] for place, _ in found})
            text = f"{len(found)} arrays, {steps} steps"
            rows.append(Row(key, text, {"name": key, "arrays": len(found), "steps": steps}))
        return rows

    def difference(self, other: Source, name: str) -> str:
        found = core.compare_rl_key(self.path, other.path, name, relative_tolerance=0, absolute_tolerance=0)
        only = len(found.reference_only) + len(found.target_only)
        bad = [row for row in found.rows if row.problem or row.same < row.count]
        bad += [row for row in found.rows if row.reference_shape != row.target_shape]
        parts = [f"{len(bad)} of {len(found.rows)} arrays differ"] if bad else []
        return ", ".join(parts + ([f"{only} arrays on one side only"] if only else []))

    def entry(self, name: str) -> Entry:
        if name in self._keys:
            files = [str(file.relative_to(self.path)) for file in self._files(name)]
            return Text(name, files[:1000], {"name": name, "files": files})
        path = Path(self.path) / name
        if ".." not in path.parts and path.suffix == ".npy" and path.is_file():
            return open_tensor_file(path)
        raise self.missing(name)


class KernelDumpSource(Source):
    """The folder of a step of a level-L2 dump: {time}/{device}/ with files in the format of the vendor."""

    kind = "kernel dump"

    def title(self) -> str:
        return (
            f"{self.path}: a kernel dump (level L2) in the format of the vendor; `msprobe parse cad -m "
            "FOLDER` makes arrays of it"
        )

    def rows(self) -> list[Row]:
        root = Path(self.path)
        rows = []
        for file in sorted(root.rglob("*")):
            if file.is_file():
                name, size = str(file.relative_to(root)), file.stat().st_size
                rows.append(Row(name, size_text(size), {"name": name, "bytes": size}))
        return rows

    def entry(self, name: str) -> Entry:
        file = Path(self.path) / name
        if ".." in file.parts or not file.is_file():
            raise self.missing(name)
        if file.suffix == ".json":
            value = JsonSource(str(file)).value
            return Text(name, _lines(json.dumps(value, indent=1)), {"name": name, "value": value})
        raise UnsupportedError(
            f"{file}: a kernel dump in the format of the vendor: `msprobe parse dc -n {file}` makes arrays "
            "of it"
        )


class JsonSource(Source):
    """A small JSON file: a verdict, a configuration, a kernel_config of a level-2 dump."""

    kind = "json"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        try:
            with open_to_read(path) as file:
                data = file.read(_LARGEST_JSON + 1)
            if len(data) > _LARGEST_JSON:
                raise FormatError(f"{path}: expected a dump, or at most 1 MiB of JSON")
            self.value: Any = json.loads(data)
        except (ValueError, RecursionError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{path}: expected JSON: {error}") from error

    def title(self) -> str:
        kernel = isinstance(self.value, dict) and set(self.value) == {"dump"}
        what = "the configuration of a kernel dump (level L2)" if kernel else "JSON"
        return f"{self.path}: {what}"

    def rows(self) -> list[Row]:
        if not isinstance(self.value, dict):
            return []
        return [Row(key, _short(value), {"name": key, "value": value}) for key, value in self.value.items()]

    def entry(self, name: str) -> Entry:
        value = self.value
        for part in name.split("."):
            if not isinstance(value, dict) or part not in value:
                raise self.missing(name)
            value = value[part]
        return Text(
            name, _lines(json.dumps(value, indent=1, ensure_ascii=False)), {"name": name, "value": value}
        )


class TableSource(Source):
    """A table: losses of a run, calls of a comparison. An entry is a row, by its first column."""

    kind = "table"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with open_to_read(path) as file:
            data = file.read(_LARGEST_JSON + 1)
        self._is_cut = len(data) > _LARGEST_JSON
        lines = cells_of(data[:_LARGEST_JSON].decode("utf-8-sig", "replace"), path)
        self._columns, self._lines = (
            (lines[0], lines[1 : -1 if self._is_cut else None]) if lines else ([], [])
        )

    def title(self) -> str:
        rows = f"the first {len(self._lines)} rows" if self._is_cut else f"{len(self._lines)} rows"
        return f"{self.path}: a table of {rows}: {', '.join(self._columns)}"

    def rows(self) -> list[Row]:
        return [Row(line[0], "  ".join(line[1:]), self._data(line)) for line in self._lines if line]

    def entry(self, name: str) -> Entry:
        line = next((line for line in self._lines if line and line[0] == name), None)
        if line is None:
            raise self.missing(name)
        data = self._data(line)
        return Text(name, [f"{column}: {value}" for column, value in data.items()], data)

    def _data(self, line: list[str]) -> dict[str, Any]:
        return {"name": line[0], **dict(zip(self._columns, line))}


def open_file(path: str, *, is_database: bool) -> Source:
    if is_database:
        return DatabaseSource(path)
    if path.lower().endswith(".csv"):
        return TableSource(path)
    return PackSource(path) if path.lower().endswith(".zip") else JsonSource(path)
