# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs in processes of their own, forked from one that has imported what they need."""

from __future__ import annotations

import os
import sys
import time
import traceback
from typing import Any


def forked(jobs: list[tuple[Any, ...]], work: Any, workers: int, word: str) -> dict[int, float]:
    """Does each job, some at a time. Number of a job: seconds of processor time."""
    running: dict[int, int] = {}
    seconds: dict[int, float] = {}
    begin = time.monotonic()
    waiting = list(range(len(jobs)))
    while waiting or running:
        while waiting and len(running) < workers:
            number = waiting.pop(0)
            child = os.fork()
            if child == 0:
                _be_the_job(work, jobs[number])
            running[child] = number
        child, _, usage = os.wait4(-1, 0)
        if child in running:
            seconds[running.pop(child)] = usage.ru_utime + usage.ru_stime
            if len(seconds) % 10 == 0 or not waiting:
                took = time.monotonic() - begin
                print(f"{word} {len(seconds)} of {len(jobs)} in {took:.0f} s", file=sys.stderr)
    return seconds


def _be_the_job(work: Any, job: tuple[Any, ...]) -> None:
    code = 70
    try:
        code = work(*job)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 2
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
