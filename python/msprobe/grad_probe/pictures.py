# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of similarities, drawn by worker processes while the comparison goes on.

The workers are fresh interpreters that import matplotlib and nothing of the caller: no fork, no second import
of the caller's main module, no torch. What they do is in drawing.py.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from typing import IO, TYPE_CHECKING, NamedTuple

from msprobe.native import core, log

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.terminal.progress import Progress

SUFFIX = "_similarities.png"
SUMMARY = "summary"

_PICTURES_PER_JOB = 8
_PICTURES_PER_WORKER = 100  # starting a worker takes as long as drawing this many
_LONGEST_FILE_NAME = 255  # bytes
# A worker finds msprobe and matplotlib where its parent found them, also when that changed its sys.path.
_WORKER = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from msprobe.grad_probe.drawing import main
main()
"""
# One thread for each worker is enough: numpy would start a pool of them for nothing.
_WORKER_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Picture(NamedTuple):
    title: str
    file_name: str
    values: list[float | None]


def picture_of(name: str, values: list[float | None]) -> Picture:
    """The picture of a parameter."""
    # A parameter called "summary" must not take the file of the summary; "%" at the start of no other name is
    # followed by 73, because the native function escapes "%" itself.
    stem = "%73ummary" if name == SUMMARY else core.direction_file_name(name)[: -len(".npy")]
    if len((stem + SUFFIX).encode("utf-8", "surrogateescape")) > _LONGEST_FILE_NAME:
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        stem = f"{stem.encode('ascii', 'replace').decode()[:200]}~{digest}"
    return Picture(f"{name}_similarities", stem + SUFFIX, values)


def picture_of_summary(values: list[float | None]) -> Picture:
    return Picture(f"{SUMMARY}_similarities", SUMMARY + SUFFIX, values)


def can_draw() -> bool:
    """Whether matplotlib is there; a warning says so when it is not."""
    if importlib.util.find_spec("matplotlib") is not None:
        return True
    log.warning("matplotlib is not installed: the comparison is written without pictures")
    return False


class Drawing:
    """Draws pictures in the background, from submit() to the end of the `with` block.

    What goes wrong becomes one warning at the end; it never ends the comparison.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._jobs: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._workers: list[subprocess.Popen[str]] = []
        self._submitted = 0
        self._drawn = 0
        self._problem: str | None = None
        self._cancelled = False

    def submit(self, directory: Path, steps: list[int], pictures: list[Picture]) -> None:
        """Draws `pictures` into `directory`, which exists."""
        if not steps:
            return
        for start in range(0, len(pictures), _PICTURES_PER_JOB):
            part = pictures[start : start + _PICTURES_PER_JOB]
            self._jobs.put(
                json.dumps({"directory": os.path.abspath(directory), "steps": steps, "pictures": part})
            )
        self._submitted += len(pictures)
        self._start(min(os.cpu_count() or 1, -(-self._submitted // _PICTURES_PER_WORKER)))

    def __enter__(self) -> Drawing:
        self._start(1)  # it imports matplotlib while the first rank is compared
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._cancel()
        for _thread in self._threads:
            self._jobs.put(None)
        try:
            for thread in self._threads:
                thread.join()
        except BaseException:  # Ctrl-C while waiting
            self._cancel()
            raise
        if kind is None and self._drawn < self._submitted:
            missing = self._submitted - self._drawn
            log.warning("%d of %d pictures could not be drawn: %s", missing, self._submitted, self._problem)

    def _start(self, workers: int) -> None:
        while len(self._threads) < workers:
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            for worker in self._workers:
                worker.kill()

    def _work(self) -> None:
        """Feeds one worker, job by job."""
        with tempfile.TemporaryFile("w+", errors="replace") as complaints:
            with self._lock:
                if self._cancelled:
                    return
                try:
                    worker = _start_worker(complaints)
                except OSError as error:
                    self._problem = f"cannot start {sys.executable}: {error.strerror}"
                    return
                self._workers.append(worker)
            with worker:
                assert worker.stdin is not None
                assert worker.stdout is not None
                while (job := self._jobs.get()) is not None:
                    try:
                        worker.stdin.write(job + "\n")
                        worker.stdin.flush()
                        answer = worker.stdout.readline()
                    except OSError:  # it died
                        answer = ""
                    if not answer:
                        break
                    self._take(json.loads(answer))
                else:
                    return
            complaints.seek(0)
            last = (complaints.read().strip() or f"exit status {worker.returncode}").splitlines()[-1]
            with self._lock:
                self._problem = f"a worker process ended early: {last}"

    def _take(self, answer: dict[str, object]) -> None:
        with self._lock:
            drawn = answer["drawn"]
            assert isinstance(drawn, int)
            self._drawn += drawn
            if answer["problem"] is not None:
                self._problem = str(answer["problem"])
        self._progress(self._drawn, self._submitted)


def _start_worker(complaints: IO[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WORKER, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
        text=True,
        env={**os.environ, **_WORKER_ENVIRONMENT},
    )
