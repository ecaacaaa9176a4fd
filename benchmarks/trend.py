# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How long does a record of a long training take to open? Makes one of 1e6 steps and 500 series (5 GB), and
times what the page asks before its first picture, what the terminal says, and the search for where two runs
part.

    python benchmarks/trend.py --dir DIR [--steps 1000000] [--series 500]
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msprobe.native import core

BLOCK, FINE, PART = 1024, 32, 1024


def make(path: Path, steps: int, series: int, seed: int) -> None:
    """A store of whole blocks, written as the monitor leaves it (docs/formats/monitor_store.md)."""
    import numpy as np

    writer = core.MonitorStoreWriter(path)
    for number in range(series):
        layer = number % 50
        scope = "model" if number < 10 else "layer"
        name = "" if number < 10 else f"layers.{layer}"
        writer.add_series(core.MonitorSeries(f"quantity{number // 50}", f"m{number}", name, scope, layer))
    writer.flush()
    del writer
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA synchronous = OFF")
    random = np.random.default_rng(seed)
    level = random.normal(size=series) ** 2 + 1
    coarse: list[Any] = []
    for block in range(steps // BLOCK):
        first = block * BLOCK
        numbers = level[:, None] * (1 + 0.05 * random.normal(size=(series, BLOCK)))
        database.execute("BEGIN")
        rows = np.arange(first, first + BLOCK, dtype="<i8")
        database.execute(
            "INSERT INTO blocks (block, first, last, steps) VALUES (?, ?, ?, ?)",
            (block, first, first + BLOCK - 1, rows.tobytes()),
        )
        database.executemany(
            "INSERT INTO columns (series, block, numbers) VALUES (?, ?, ?)",
            ((one, block, numbers[one].astype("<f8").tobytes()) for one in range(series)),
        )
        fine = _points(numbers.reshape(series, BLOCK // FINE, FINE))
        database.executemany(
            "INSERT INTO fine (series, block, points) VALUES (?, ?, ?)",
            ((one, block, fine[one].tobytes()) for one in range(series)),
        )
        coarse.append(_points(numbers.reshape(series, 1, BLOCK))[:, 0])
        if len(coarse) == PART or block == steps // BLOCK - 1:
            part = np.stack(coarse, axis=1)
            database.executemany(
                "INSERT INTO coarse (series, part, points) VALUES (?, ?, ?)",
                ((one, block // PART, part[one].tobytes()) for one in range(series)),
            )
            coarse = []
        database.execute("COMMIT")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


def _points(numbers: Any) -> Any:
    """Of the last axis: least, most, mean, count, not finite."""
    import numpy as np

    kind = np.dtype([("min", "<f8"), ("max", "<f8"), ("mean", "<f8"), ("count", "<u4"), ("bad", "<u4")])
    points = np.zeros(numbers.shape[:-1], kind)
    points["min"], points["max"] = numbers.min(axis=-1), numbers.max(axis=-1)
    points["mean"], points["count"] = numbers.mean(axis=-1), numbers.shape[-1]
    return points


def first_picture(folder: Path) -> None:
    """What the page asks, answered as the server sends it."""
    from msprobe.trend.api import TrendApi
    from msprobe.trend.record import open_records

    api = TrendApi(open_records([str(folder)]))
    runs = api.answer("runs", {})
    keys = [one[0] for one in runs["series"] if one[4] == "layer"][:50]
    json.dumps(runs)
    json.dumps(api.answer("curves", {"keys": [runs["series"][0][0]], "points": 700}))
    json.dumps(api.answer("curves", {"keys": keys, "points": 700}))


def every_series(folder: Path) -> None:
    from msprobe.trend.api import TrendApi
    from msprobe.trend.record import open_records

    api = TrendApi(open_records([str(folder)]))
    keys = [one[0] for one in api.answer("runs", {})["series"]]
    json.dumps(api.answer("curves", {"keys": keys, "points": 160}))


def zoomed(folder: Path) -> None:
    from msprobe.trend.api import TrendApi
    from msprobe.trend.record import open_records

    (record,) = open_records([str(folder)])
    middle = record.last // 2
    api = TrendApi([record])
    keys = [one.key for one in record.series[:50]]
    json.dumps(api.answer("curves", {"keys": keys, "first": middle, "last": middle + 500, "points": 700}))


def terminal(folder: Path) -> None:
    import contextlib
    import io

    from msprobe.trend.command import main

    with contextlib.redirect_stdout(io.StringIO()):
        main([str(folder)])


def parting(folder: Path) -> None:
    """Of a run with itself: nothing parts, so everything is read."""
    from msprobe.trend.comparison import compare
    from msprobe.trend.record import open_records

    reference, target = open_records([str(folder), str(folder)])
    compare(reference, target)


def timed(name: str, work: Callable[[Path], None], folder: Path, rounds: int) -> None:
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work(folder)
        seconds.append(time.perf_counter() - begin)
    print(
        f"{name:<44} first {seconds[0]:7.2f} s   median {sorted(seconds)[len(seconds) // 2]:7.2f} s",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--series", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without-parting", action="store_true")
    asked = parser.parse_args()
    asked.dir.mkdir(parents=True, exist_ok=True)
    path = asked.dir / "monitor.db"
    if not path.exists():
        make(path, asked.steps, asked.series, 0)
    print(f"{path}: {path.stat().st_size / 1e9:.2f} GB")
    timed("the first picture of the page", first_picture, asked.dir, asked.rounds)
    timed("curves of every series, 160 points", every_series, asked.dir, asked.rounds)
    timed("500 steps of 50 series, in the middle", zoomed, asked.dir, asked.rounds)
    timed("the terminal summary", terminal, asked.dir, asked.rounds)
    if not asked.without_parting:
        timed("where it parts from itself", parting, asked.dir, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
