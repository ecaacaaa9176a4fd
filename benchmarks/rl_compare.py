# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Comparing two records of SingleSave against reading their files once, from the page cache.

    python benchmarks/rl_compare.py [--gib 2] [--rounds 5]

Rounds are interleaved; shares are medians of their ratios. 1.0: as fast as reading.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from measure import median_ratio
from msprobe.native import core

_ARRAY_MIB = 32
_PIECE = 1 << 20
_THREADS = len(os.sched_getaffinity(0))


def make_record(path: Path, seed: int, arrays: int) -> None:
    random = np.random.default_rng(seed)
    common = np.random.default_rng(0).standard_normal(_ARRAY_MIB << 18, dtype=np.float32)
    for step in range(arrays):
        folder = path / f"data/values/step{step}/rank0/micro_step0"
        folder.mkdir(parents=True)
        common[random.integers(common.size)] += 1
        np.save(folder / "values.npy", common)


def read(path: Path) -> None:
    buffer = bytearray(_PIECE)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def seconds_to_read(files: list[Path], threads: int) -> float:
    begin = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, files))
    return time.perf_counter() - begin


def seconds_to_compare(left: Path, right: Path) -> float:
    begin = time.perf_counter()
    found = core.compare_rl_key(left, right, "values", threads=_THREADS)
    taken = time.perf_counter() - begin
    assert all(0 < row.count - row.same <= 2 * (i + 1) for i, row in enumerate(found.rows))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=2, help="of both records together")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        left, right = Path(folder) / "left", Path(folder) / "right"
        arrays = max(1, int(asked.gib * 1024 / _ARRAY_MIB / 2))
        make_record(left, 1, arrays)
        make_record(right, 2, arrays)
        files = sorted(Path(folder).rglob("*.npy"))
        gib = sum(file.stat().st_size for file in files) / (1 << 30)
        seconds_to_read(files, 1)  # into the page cache
        rounds = [
            (seconds_to_compare(left, right), seconds_to_read(files, 1), seconds_to_read(files, _THREADS))
            for _ in range(asked.rounds)
        ]
    compared, by_one, by_all = (list(times) for times in zip(*rounds))
    print(f"{2 * arrays} arrays, {gib:.2f} GiB, {_THREADS} threads, {asked.rounds} rounds")
    print(f"compare          {gib / statistics.median(compared):6.2f} GiB/s")
    for name, times in (("one thread", by_one), ("all threads", by_all)):
        share = median_ratio(times, compared)
        print(f"read, {name:11}{gib / statistics.median(times):6.2f} GiB/s   share {share:.2f}")


if __name__ == "__main__":
    main()
