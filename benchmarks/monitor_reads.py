# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How many plain reads of what is watched does a recorded step of the monitor take? 100 million gradients, an
optimizer that does nothing, all cheap statistics of the gradients; also of gradients and weights.

    python benchmarks/monitor_reads.py --plain-read libmsprobe_bench_plain_read.so [--threads 1 2]

A plain read and a step take turns; reported is the median of the ratios.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import measure
import msprobe
import torch
from grad_probe_worker import Idle, Model, decoder_shapes


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _reader(library: str, tensors: list[torch.Tensor], threads: int) -> Callable[[], Any]:
    count = len(tensors)
    data = (ctypes.c_void_p * count)(*(tensor.data_ptr() for tensor in tensors))
    sizes = (ctypes.c_size_t * count)(*(tensor.numel() * tensor.element_size() for tensor in tensors))
    read = ctypes.CDLL(library).plain_read_all
    read.restype = ctypes.c_uint64
    return lambda: read(data, sizes, ctypes.c_size_t(count), ctypes.c_uint(threads))


def benchmark(library: str, threads: int, rounds: int) -> list[list[str]]:
    torch.set_num_threads(threads)
    model = Model(decoder_shapes(), torch.float32)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    optimizer = Idle(model.parameters())
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    watched = {"gradient": gradients, "gradient, weight": [*gradients, *(p.data for p in model.parameters())]}
    rows = []
    for names, tensors in watched.items():
        read = _reader(library, tensors, threads)
        with (
            tempfile.TemporaryDirectory() as folder,
            msprobe.monitor(model, optimizer, folder, quantities=names.split(", ")),
        ):
            read()
            optimizer.step()
            plain, ratios = [], []
            for _ in range(rounds):
                before = _seconds(read)
                step = _seconds(optimizer.step)
                plain.append(min(before, _seconds(read)))
                ratios.append(step / plain[-1])
        row = [names, str(threads), measure.duration(statistics.median(plain))]
        rows.append([*row, f"{statistics.median(ratios):.2f}x"])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plain-read", required=True, help="libmsprobe_bench_plain_read.so")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    rows = [
        row for threads in options.threads for row in benchmark(options.plain_read, threads, options.rounds)
    ]
    print(measure.table(["watched", "threads", "plain read", "a recorded step"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
