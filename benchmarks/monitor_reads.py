# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How many plain reads of what is watched does a recorded step of the monitor take? 100 million gradients, an
optimizer that does nothing, all cheap statistics of the gradients; also of weights and of Adam's moments.

    python benchmarks/monitor_reads.py --plain-read libmsprobe_bench_plain_read.so [--threads 1 2]

A plain read and a step take turns; reported are the least times of the processor, which other programs
disturb less.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
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
    begin = time.process_time()
    work()
    return time.process_time() - begin


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
    weights = [p.data for p in model.parameters()]
    moments = [torch.randn_like(p.data).mul_(1e-3) for p in [*model.parameters(), *model.parameters()]]
    for p, first, second in zip(model.parameters(), moments, moments[len(weights) :]):
        optimizer.state[p] = {"exp_avg": first, "exp_avg_sq": second.square_()}
    watched = {
        "gradient": gradients,
        "weight": weights,
        "gradient, weight": [*gradients, *weights],
        "gradient, weight, moment": [*gradients, *weights, *moments],
    }
    without = ["norm", "abs_max", "mean", "nonfinite"]  # kurtosis, zeros
    rows = []
    for (names, tensors), metrics in itertools.product(watched.items(), ([], without)):
        read = _reader(library, tensors, threads)
        with (
            tempfile.TemporaryDirectory() as folder,
            msprobe.monitor(model, optimizer, folder, quantities=names.split(", "), metrics=metrics),
        ):
            read()
            optimizer.step()
            plain, steps = [], []
            for _ in range(rounds):
                plain.append(_seconds(read))
                steps.append(_seconds(optimizer.step))
        ratio = f"{min(steps) / min(plain):.2f}x"
        taken = ", ".join(metrics) or "all by default"
        rows.append([names, taken, str(threads), measure.duration(min(plain)), ratio])
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
    print(measure.table(["watched", "metrics", "threads", "plain read", "a recorded step"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
