# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Asks `msprobe compare` about pairs of dumps: each in a process of its own, forked from one that has the
command's modules, so that a question costs no more than the answer.
"""

from __future__ import annotations

import importlib
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from judging import Answer, answer_of

TIMEOUT = 120.0


def prepare() -> None:
    """Imports what the command imports, once."""
    for name in ("msprobe.cli", "msprobe.compare.command", "msprobe.compare.run", "msprobe.compare.outputs"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:  # has another name in this version: only slower
            continue


def compare(golden: Path, target: Path, out: Path | None = None, options: tuple[str, ...] = ()) -> Answer:
    """The answer to one pair; `out`: where the command's files are left."""
    folder = out or Path(tempfile.mkdtemp(prefix="msprobe-table-", dir=_memory()))
    try:
        words = [
            "compare",
            str(golden),
            str(target),
            "-o",
            str(folder),
            "--quiet",
            "--force",
            "--format",
            "csv",
            "-c",
            *options,
        ]
        code, seconds, text = _run(words)
        if code is None:
            return Answer(fault=f"no answer within {TIMEOUT:.0f} s", seconds=seconds)
        return answer_of(folder, code, seconds, text)
    finally:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)


def _memory() -> str | None:
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def _run(words: list[str]) -> tuple[int | None, float, str]:
    """Exit code (None: it took too long), seconds of processor time, what it printed."""
    with tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            _be_the_command(words, log.fileno())
        end = time.monotonic() + TIMEOUT
        descriptor = os.pidfd_open(child)
        in_time = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]
        os.close(descriptor)
        if not in_time:
            os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
        log.seek(0)
        text = log.read().decode(errors="replace")
    code = os.waitstatus_to_exitcode(status) if in_time else None
    return code, usage.ru_utime + usage.ru_stime, text


def _be_the_command(words: list[str], log: int) -> None:
    code = 70
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        from msprobe.cli import main

        code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 2
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
