# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A `.vis.db` that is only read: of mindstudio-probe (8.2.1 to 26.2) and of msprobe.

The file is opened so that SQLite writes nothing, neither into it nor beside it. Where a write-ahead log or a
rollback journal lies beside it, another program is writing or was killed: then a private copy of both is
read."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from msprobe.files.regular_file import open_to_read, open_to_write
from msprobe.native import FormatError, IoError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SUFFIX = ".vis.db"
SIDES = ("NPU", "Bench")  # target, reference; their numbers are 0 and 1

_MAGIC = b"SQLite format 3\0"
_LOGS = ("-wal", "-journal")
_LONGEST_QUERY = 30.0  # seconds; a damaged index can make a query endless
_LONGEST_ANSWER = 60.0  # all queries of one
_MOST_COPIED = 8 << 30
_MOST_ASKED = 2000  # nodes, for what a file holds
_REQUIRED = ("node_name", "up_node", "node_order", "data_source", "step", "rank")
_OPTIONAL = {
    "node_type": "'0'",
    "sub_nodes": "''",
    "precision_index": "NULL",
    "overflow_level": "NULL",
    "micro_step_id": "0",
    "matched_node_link": "'[]'",
    "stack_id": "NULL",
    "parallel_merge_info": "''",
    "matched_distributed": "'{}'",
    "input_data": "'{}'",
    "output_data": "'{}'",
    "dump_data_dir": "NULL",
}


@dataclass(frozen=True)
class Config:
    """The row of tb_config. `colours`: from good to bad, (colour, low, high), without the unmatched."""

    is_compare: bool
    task: str
    micro_steps: int
    has_overflow: bool
    colours: list[tuple[str, float, float]]
    unmatched_colour: str
    ranks: list[int]
    steps: list[int]

    @property
    def small_index_is_bad(self) -> bool:
        """Checksums: 1 is equal in most releases, and different in 26.2. The colours of the file say it."""
        return self.task == "md5" and [(low, high) for _, low, high in self.colours] == [(1, 1), (0, 0)]


@dataclass
class ResultFile:
    """Safe to use from several threads; each has a connection of its own."""

    path: Path
    config: Config
    columns: dict[str, str]  # name -> what to select: the column, or a value where the schema has none
    has_own_tables: bool
    size: int
    stamp: tuple[int, ...]
    _source: Path
    _local: threading.local = field(default_factory=threading.local)

    @property
    def source(self) -> Path:
        """What to open for reading: the file, or its private copy."""
        return self._source

    def connection(self) -> sqlite3.Connection:
        found = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = connect(self._source)
        return found

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a query that is known to be small. Raises FormatError for a damaged file."""
        connection = self.connection()
        with damage(self.path), time_limit(connection):
            return connection.execute(sql, values).fetchall()

    def has_statistics(self) -> bool:
        """Of tensors; asked of the first nodes."""
        column = self.columns["output_data"]
        sql = f"SELECT 1 FROM (SELECT {column} AS cells FROM tb_nodes LIMIT {_MOST_ASKED}) WHERE cells LIKE ?"
        return bool(self.rows(f"{sql} LIMIT 1", '%"Max"%'))

    @property
    def is_copy(self) -> bool:
        """Of a file that was being written when it was opened."""
        return self._source != self.path

    def is_current(self) -> bool:
        try:
            return self.stamp == _stamp(self.path)
        except OSError:
            return False

    def close(self) -> None:
        """It is read no more: its private copy, if it has one, goes."""
        if self.is_copy:
            shutil.rmtree(self._source.parent, ignore_errors=True)


def open_result(path: Path) -> ResultFile:
    """Raises IoError where the file cannot be read, and FormatError with a sentence for people where it is no
    result of a graph comparison, is damaged, or is not complete.
    """
    try:
        stamp = _stamp(path)
        with open_to_read(path) as file:
            head = file.read(100)
    except OSError as error:
        raise IoError(f"cannot read {path}: {os.strerror(error.errno or 0)}") from error
    if not head:
        raise FormatError(f"{path.name} is empty: the program that writes it has not finished, or was ended")
    if head[:16] != _MAGIC:
        raise FormatError(
            f"{path.name} is not a SQLite database, so it is not the result of a graph comparison"
        )
    source = _private_copy(path) if _is_being_written(path, head) else path
    with damage(path):
        connection = connect(source)
        with time_limit(connection):
            columns, own = _schema(connection, path)
            config = _config(connection, path)
        connection.close()
    return ResultFile(path, config, columns, own, stamp[0], stamp, source)


def connect(source: Path) -> sqlite3.Connection:
    """Reads only. A query that takes too long is ended."""
    address = f"file:{quote(str(source.absolute()))}?mode=ro&immutable=1"
    connection = sqlite3.connect(address, uri=True, check_same_thread=False)
    connection.text_factory = _text
    for pragma in ("query_only=1", "trusted_schema=0", "cache_size=-4000", "temp_store=2"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


_answers = threading.local()


@contextlib.contextmanager
def answering(seconds: float = _LONGEST_ANSWER) -> Iterator[None]:
    """All queries of this thread inside of it share the time of an answer."""
    before = getattr(_answers, "end", None)
    if before is None:
        _answers.end = time.monotonic() + seconds
    try:
        yield
    finally:
        _answers.end = before


@contextlib.contextmanager
def time_limit(connection: sqlite3.Connection, seconds: float = _LONGEST_QUERY) -> Iterator[None]:
    end = time.monotonic() + seconds
    of_answer = getattr(_answers, "end", None)
    if of_answer is not None:
        end = min(end, of_answer)
    connection.set_progress_handler(lambda: int(time.monotonic() > end), 100_000)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def whole_number(value: object, path: Path, what: str) -> int:
    """Of a cell. Raises FormatError."""
    if not isinstance(value, int):
        raise FormatError(f"{path.name}: {what}: expected a whole number, found {value!r:.60}")
    return value


def json_object(text: object) -> dict[str, Any]:
    """Of a cell; {} for anything else."""
    value = _json(text)
    return value if isinstance(value, dict) else {}


def json_list(text: object) -> list[Any]:
    value = _json(text)
    return value if isinstance(value, list) else []


def cells(text: object) -> dict[str, dict[str, str]]:
    """input_data or output_data; what is not of their form is left out."""
    return {name: cell for name, cell in json_object(text).items() if isinstance(cell, dict)}


def _json(text: object) -> object:
    if not isinstance(text, str) or not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _stamp(path: Path) -> tuple[int, ...]:
    """Changes when the file or a log with content beside it does."""
    status = path.stat()
    logs = [log for suffix in _LOGS if (log := _log_stamp(path, suffix))]
    return status.st_size, status.st_mtime_ns, status.st_ino, *(part for log in logs for part in log)


def _log_stamp(path: Path, suffix: str) -> tuple[int, int] | None:
    """Size and time of a log beside the file; None where there is none with content."""
    try:
        status = path.with_name(path.name + suffix).lstat()
    except FileNotFoundError:
        return None
    is_log = stat.S_ISREG(status.st_mode) and status.st_size > 0
    return (status.st_size, status.st_mtime_ns) if is_log else None


def _is_being_written(path: Path, head: bytes) -> bool:
    """A journal with content. A log of a database that is not in this mode (bytes 18, 19) is a leftover."""
    has_log = head[18:20] == b"\2\2" and _log_stamp(path, "-wal") is not None
    return has_log or _log_stamp(path, "-journal") is not None


def _private_copy(path: Path) -> Path:
    """SQLite finishes or takes back what the log beside the file holds, in the copy."""
    if path.stat().st_size > _MOST_COPIED:
        raise FormatError(
            f"{path.name} is being written (a log lies beside it): open it when that is finished"
        )
    folder = Path(tempfile.mkdtemp(prefix="msprobe-view-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for suffix in ("", *_LOGS):
        part = path.with_name(path.name + suffix)
        if part.is_file() and not part.is_symlink():
            with open_to_read(part) as source, open_to_write(folder / ("copy.db" + suffix)) as target:
                shutil.copyfileobj(source, target)
    copy = folder / "copy.db"
    with damage(path):
        connection = sqlite3.connect(copy)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.execute("PRAGMA journal_mode=delete")
        connection.close()
    return copy


@contextlib.contextmanager
def damage(path: Path) -> Iterator[None]:
    """What SQLite finds wrong becomes a sentence for people."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            raise FormatError(f"{path.name}: a question took too long and was ended") from error
        raise FormatError(f"{path.name} cannot be read: {error}. Is it being written?") from error
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        raise FormatError(f"{path.name} is damaged: {error}. Make it again, or open another copy") from error


def check_tables(kinds: dict[str, str], path: Path) -> None:
    """A view is a program: asking what looks like a table may take for ever. Raises FormatError."""
    for name, kind in kinds.items():
        if kind not in ("table", "index") and str(name).startswith(("tb_", "msprobe_")):
            raise FormatError(f"{path.name}: expected a table {name}, found a {kind}")


def _schema(connection: sqlite3.Connection, path: Path) -> tuple[dict[str, str], bool]:
    kinds = dict(connection.execute("SELECT name, type FROM sqlite_master").fetchall())
    check_tables(kinds, path)
    for table in ("tb_nodes", "tb_config"):
        if kinds.get(table) != "table":
            raise FormatError(
                f"{path.name} has no table {table}: it is not the result of a graph comparison, or "
                "the program "
                "that writes it has not finished"
            )
    present = {row[1] for row in connection.execute("PRAGMA table_info(tb_nodes)")}
    if missing := [name for name in _REQUIRED if name not in present]:
        raise FormatError(f"{path.name}: the table tb_nodes has no column {missing[0]}")
    columns = {name: name for name in _REQUIRED}
    columns |= {name: name if name in present else other for name, other in _OPTIONAL.items()}
    return columns, kinds.get("msprobe_nodes") == "table"


def _config(connection: sqlite3.Connection, path: Path) -> Config:
    connection.row_factory = sqlite3.Row
    row = connection.execute("SELECT * FROM tb_config LIMIT 1").fetchone()
    connection.row_factory = None
    if row is None:
        raise FormatError(
            f"{path.name}: the table tb_config is empty: the program that writes it has not finished"
        )
    content = {name: row[name] for name in row.keys()}  # noqa: SIM118  # a Row is no mapping
    colours, unmatched = _colours(content.get("node_colors"))
    micro = content.get("micro_steps")
    return Config(
        is_compare=content.get("graph_type") == "compare",
        task=str(content.get("task") or ""),
        micro_steps=micro if isinstance(micro, int) and 0 < micro <= 10_000 else 1,
        has_overflow=bool(content.get("overflow_check")),
        colours=colours,
        unmatched_colour=unmatched,
        ranks=_numbers(content.get("rank_list")),
        steps=_numbers(content.get("step_list")),
    )


def _numbers(text: object) -> list[int]:
    found = [int(v) for v in json_list(text) if isinstance(v, int) or (isinstance(v, str) and v.isdecimal())]
    return sorted(set(found)) or [0]


def _colours(text: object) -> tuple[list[tuple[str, float, float]], str]:
    found, unmatched = [], "#C7C7C7"
    for colour, entry in json_object(text).items():
        if not _is_colour(colour) or not isinstance(entry, dict):
            continue
        value = entry.get("value")
        if isinstance(value, list) and len(value) == 2 and all(isinstance(v, (int, float)) for v in value):
            found.append((colour, float(value[0]), float(value[1])))
        elif value == []:
            unmatched = colour
    return found, unmatched


def _is_colour(text: str) -> bool:
    return len(text) == 7 and text[0] == "#" and all(c in "0123456789abcdefABCDEF" for c in text[1:])
