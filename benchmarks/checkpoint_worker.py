# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Compares two checkpoints again and again, in turns with a plain sum of the bytes of their files.

python benchmarks/checkpoint_worker.py LIBRARY A B THREADS ROUNDS
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
import time
from pathlib import Path

from msprobe.checkpoint.tables import load_rules
from msprobe.native import core


def main() -> None:
    library, left, right, threads, rounds = sys.argv[1:]
    rules = load_rules()
    first, second = (core.open_checkpoint(path, rules) for path in (left, right))
    sum_files = _PlainSum(library, [*first.files, *second.files])
    seconds: dict[str, list[float]] = {"sum": [], "all": [], "with_hash": []}
    for number in range(int(rounds) + 1):
        start = time.perf_counter()
        sum_files(int(threads))
        moments = [start, time.perf_counter()]
        for with_hash in (False, True):
            core.compare_checkpoints(first, second, rules, threads=int(threads), hash=with_hash)
            moments.append(time.perf_counter())
        if number > 0:  # the first round finds the files on the disk, perhaps
            for name, begin, end in zip(seconds, moments, moments[1:]):
                seconds[name].append(end - begin)
    print(json.dumps({"bytes": first.bytes + second.bytes, "parameters": len(first.parameters), **seconds}))


class _PlainSum:
    def __init__(self, library: str, files: list[str]) -> None:
        self._read = ctypes.CDLL(library).plain_read_all
        self._read.restype = ctypes.c_uint64
        self._files = files

    def __call__(self, threads: int) -> None:
        """Maps the files anew, as whoever opens a checkpoint does."""
        maps = []
        for path in self._files:
            with Path(path).open("rb") as file:
                maps.append(
                    mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
                )
        buffers = [ctypes.c_char.from_buffer(one) for one in maps]
        pointers = (ctypes.c_void_p * len(maps))(*(ctypes.addressof(one) for one in buffers))
        sizes = (ctypes.c_size_t * len(maps))(*map(len, maps))
        self._read(pointers, sizes, ctypes.c_size_t(len(maps)), ctypes.c_uint(threads))


if __name__ == "__main__":
    main()
