# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Several processes of one training on this machine, as a launcher starts them."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PART_OF_RUN = "MSPROBE_PART_OF_RUN"
"""Of a process that was started here, whose folder is free: the words of the command that started it."""

_LOOKS_EVERY = 0.05  # seconds
_KILLED_AFTER = 10  # seconds between being asked to end and being killed


def run_ranks(count: int, words: Sequence[str], started_as: Sequence[str]) -> int:
    """Runs `python -m msprobe WORDS` in each rank, with the variables of a launcher, and waits for all. Cores
    are divided among them. started_as: what a person types for it, without folder and program. Returns 0, or
    the exit code of the first rank that failed: the others are ended then, as they would wait for it.
    """
    port = _free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "msprobe", *words], env=_environment(rank, count, port, started_as)
        )
        for rank in range(count)
    ]
    try:
        return _waited(processes)
    finally:
        _end(processes)


def threads_of_rank(count: int) -> int:
    """So that all ranks together have as many as there are cores."""
    return max(1, len(os.sched_getaffinity(0)) // count)


def _environment(rank: int, count: int, port: int, started_as: Sequence[str]) -> dict[str, str]:
    place = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,
        "GROUP_RANK": 0,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        PART_OF_RUN: shlex.join(started_as),
    }
    threads = {"OMP_NUM_THREADS": str(threads_of_rank(count))}
    return {**threads, **os.environ, **{name: str(value) for name, value in place.items()}}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _waited(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    while True:
        codes = [process.poll() for process in processes]
        failed = next((code for code in codes if code), None)
        if failed is not None:
            return failed if failed > 0 else 128 - failed
        if all(code == 0 for code in codes):
            return 0
        time.sleep(_LOOKS_EVERY)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGTERM)
    latest = time.monotonic() + _KILLED_AFTER
    for process in processes:
        try:
            process.wait(max(0.0, latest - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
