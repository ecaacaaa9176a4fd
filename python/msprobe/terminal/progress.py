# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A progress bar on a terminal; anywhere else, as in the log of a job, a line now and then."""

from __future__ import annotations

import sys
import threading
import time

_WIDTH = 30
_INTERVAL = 0.1  # seconds, on a terminal
_LINE_INTERVAL = 10.0  # elsewhere, and of work that does not say how far it is


class Progress:
    """`with Progress("pictures") as progress: progress(done, total)`. May be called from several threads.
    `in_bytes`: the work is counted in bytes, and their rate and the time that is left are shown.
    """

    def __init__(self, label: str, *, shown: bool = True, in_bytes: bool = False) -> None:
        self._label = label
        self._in_bytes = in_bytes
        self._begin = time.monotonic()
        self._shown = shown and sys.stderr is not None
        self._is_terminal = self._shown and sys.stderr.isatty()
        self._interval = _INTERVAL if self._is_terminal else _LINE_INTERVAL
        self._lock = threading.Lock()
        self._next = time.monotonic() + self._interval  # short work shows nothing
        self._drawn = False

    def __call__(self, done: int, total: int) -> None:
        if not self._shown or total == 0:
            return
        with self._lock:
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + self._interval
            numbers = self._rate(done, total) if self._in_bytes else f"{done}/{total}"
            if not self._is_terminal:
                sys.stderr.write(f"msprobe: {self._label} {numbers.rstrip()}\n")
                sys.stderr.flush()
                return
            self._drawn = True
            filled = _WIDTH * done // total
            sys.stderr.write(f"\r{self._label} [{'#' * filled}{'.' * (_WIDTH - filled)}] {numbers} ")
            sys.stderr.flush()

    def _rate(self, done: int, total: int) -> str:
        rate = done / max(time.monotonic() - self._begin, 1e-9)
        left = (total - done) / rate if rate else 0
        return f"{done / 1e9:.1f}/{total / 1e9:.1f} GB, {rate / 1e9:.2f} GB/s, {left:.0f} s left "

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


class Working:
    """`with Working("verdict of 3,072 dumps"):` of work that cannot say how far it is: every ten seconds for
    how long it has been done.
    """

    def __init__(self, label: str, *, shown: bool = True) -> None:
        self._label = label
        self._shown = shown and sys.stderr is not None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="progress", daemon=True)

    def __enter__(self) -> Working:
        if self._shown:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._shown:
            self._thread.join()

    def _tell(self) -> None:
        begin = time.monotonic()
        while not self._ended.wait(_LINE_INTERVAL):
            sys.stderr.write(f"msprobe: {self._label}, {time.monotonic() - begin:.0f} s\n")
            sys.stderr.flush()
