# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What an engine for the monitor's numbers costs: a step of 500 numbers appended so that a killed process
keeps it, the size on disk, and the overview of all series read again (docs/adr/0022).

Needs numpy; pyarrow and duckdb where they are installed: python benchmarks/monitor_engines.py --steps 20000
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERIES = 500
BLOCK = 1024  # steps that become a column
POINTS = 1000  # of an overview


def numbers(steps: int) -> Iterator[Any]:
    import numpy as np

    generator = np.random.default_rng(0)
    state = generator.normal(size=SERIES)
    for _ in range(steps):
        state = state * 0.999 + generator.normal(size=SERIES) * 0.01
        yield state


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def seconds(result: dict[str, float], name: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    result[name] = time.perf_counter() - begin


# ---- SQLite, one row for each number


def sqlite_rows(folder: Path, steps: int, result: dict[str, float]) -> None:
    database = sqlite3.connect(folder / "a.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = OFF")
    database.execute(
        "CREATE TABLE n (series INTEGER, step INTEGER, value REAL, PRIMARY KEY (series, step)) WITHOUT ROWID"
    )
    with seconds(result, "append"):
        for step, row in enumerate(numbers(steps)):
            database.execute("BEGIN")
            database.executemany(
                "INSERT INTO n VALUES (?, ?, ?)", ((i, step, v) for i, v in enumerate(row.tolist()))
            )
            database.execute("COMMIT")
    with seconds(result, "overview"):
        width = max(1, steps // POINTS)
        database.execute(
            "SELECT series, step / ?, min(value), max(value), avg(value) FROM n GROUP BY 1, 2", (width,)
        ).fetchall()
    database.close()


# ---- SQLite, a row for each step, then columns of 1024 and buckets beside them: what the monitor does


def sqlite_columns(journal: str) -> Callable[[Path, int, dict[str, float]], None]:
    def run(folder: Path, steps: int, result: dict[str, float]) -> None:
        import numpy as np

        database = sqlite3.connect(folder / "a.db", isolation_level=None)
        database.execute(f"PRAGMA journal_mode = {journal}")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE recent (step INTEGER PRIMARY KEY, data BLOB)")
        for table in ("columns", "buckets"):
            database.execute(
                f"CREATE TABLE {table} (series INTEGER, block INTEGER, data BLOB, "
                "PRIMARY KEY (series, block)) WITHOUT ROWID"
            )
        waiting: list[Any] = []
        with seconds(result, "append"):
            for step, row in enumerate(numbers(steps)):
                database.execute("INSERT INTO recent VALUES (?, ?)", (step, row.tobytes()))
                waiting.append(row)
                if len(waiting) == BLOCK:
                    block = np.stack(waiting, axis=1)
                    parts = block.reshape(SERIES, -1, 32)
                    coarse = np.stack([parts.min(2), parts.max(2), parts.mean(2)], axis=2)
                    database.execute("BEGIN")
                    at = step // BLOCK
                    database.executemany(
                        "INSERT INTO columns VALUES (?, ?, ?)",
                        ((i, at, c.tobytes()) for i, c in enumerate(block)),
                    )
                    database.executemany(
                        "INSERT INTO buckets VALUES (?, ?, ?)",
                        ((i, at, c.tobytes()) for i, c in enumerate(coarse)),
                    )
                    database.execute("DELETE FROM recent")
                    database.execute("COMMIT")
                    waiting.clear()
        with seconds(result, "overview"):
            rows = database.execute("SELECT series, block, data FROM buckets").fetchall()
            for _, _, data in rows:
                np.frombuffer(data)
        database.close()

    return run


# ---- Parquet: a file for each block; between blocks only a log of our own would keep what is killed


def parquet(folder: Path, steps: int, result: dict[str, float]) -> None:
    import numpy as np
    import pyarrow as pa  # type: ignore[import-not-found]
    import pyarrow.parquet as pq  # type: ignore[import-not-found]

    waiting: list[Any] = []
    names = [f"s{i}" for i in range(SERIES)]
    with seconds(result, "append"), open(folder / "log", "ab", buffering=0) as log:
        for step, row in enumerate(numbers(steps)):
            log.write(row.tobytes())
            waiting.append(row)
            if len(waiting) == BLOCK:
                block = np.stack(waiting, axis=1)
                table = pa.table(dict(zip(names, map(pa.array, block))))
                pq.write_table(table, folder / f"{step // BLOCK}.parquet")
                log.truncate(0)
                waiting.clear()
    with seconds(result, "overview"):
        for path in sorted(folder.glob("*.parquet"), key=lambda p: int(p.stem)):
            table = pq.read_table(path)
            for column in table.columns:
                column.to_numpy().reshape(-1, 32).min(1)


# ---- DuckDB


def duckdb(folder: Path, steps: int, result: dict[str, float]) -> None:
    import duckdb as engine  # type: ignore[import-not-found]

    database = engine.connect(str(folder / "a.duckdb"))
    columns = ", ".join(f"s{i} DOUBLE" for i in range(SERIES))
    database.execute(f"CREATE TABLE n (step BIGINT, {columns})")
    marks = ", ".join("?" * (SERIES + 1))
    with seconds(result, "append"):
        for step, row in enumerate(numbers(steps)):
            database.execute(f"INSERT INTO n VALUES ({marks})", [step, *row.tolist()])
    with seconds(result, "overview"):
        width = max(1, steps // POINTS)
        what = ", ".join(f"min(s{i}), max(s{i}), avg(s{i})" for i in range(SERIES))
        database.execute(f"SELECT step // {width}, {what} FROM n GROUP BY 1").fetchall()
    database.close()


def csv(folder: Path, steps: int, result: dict[str, float]) -> None:
    with seconds(result, "append"), open(folder / "a.csv", "ab", buffering=0) as file:
        for step, row in enumerate(numbers(steps)):
            file.write((f"{step}," + ",".join(map(repr, row.tolist())) + "\n").encode())
    with seconds(result, "overview"):
        import numpy as np

        np.loadtxt(folder / "a.csv", delimiter=",").min(0)


ENGINES = {
    "SQLite, a row for each number": sqlite_rows,
    "SQLite, columns, WAL": sqlite_columns("WAL"),
    "SQLite, columns, TRUNCATE": sqlite_columns("TRUNCATE"),
    "SQLite, columns, PERSIST": sqlite_columns("PERSIST"),
    "Parquet and a log": parquet,
    "DuckDB": duckdb,
    "csv": csv,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10 * BLOCK)
    parser.add_argument("--only", action="append", choices=list(ENGINES))
    asked = parser.parse_args()
    for name, run in ENGINES.items():
        if asked.only and name not in asked.only:
            continue
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
            result: dict[str, float] = {}
            # Engines that need seconds for a thousand steps are not asked for more.
            steps = (
                asked.steps
                if name not in ("DuckDB", "SQLite, a row for each number")
                else min(asked.steps, 2048)
            )
            try:
                run(Path(folder), steps, result)
            except ImportError as error:
                print(f"{name}: {error}")
                continue
            line = {
                "engine": name,
                "steps": steps,
                "append_us_a_step": round(1e6 * result["append"] / steps, 1),
                "overview_ms_for_1000_steps": round(1e6 * result["overview"] / steps, 2),
                "bytes_a_number": round(size_of(Path(folder)) / steps / SERIES, 2),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
