# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a checker gets: steps of trainings, in any order of ranks, until every rank has ended."""

from __future__ import annotations

import queue
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.native import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LOOK = 0.1  # seconds


@dataclass(frozen=True)
class ReceivedStep:
    client: str
    """One process of a training."""
    rank: int
    step: int
    folder: Path
    """With dump.json and the tensors beside it."""

    def discard(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Arrivals:
    """Steps that wait to be checked, at most `most`, and which ranks are done. Of any thread."""

    def __init__(self, ranks: Iterable[int], most: int) -> None:
        self.ranks = frozenset(ranks)
        self._steps: queue.Queue[ReceivedStep] = queue.Queue(most)
        self._ended: set[int] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._fault: BaseException | None = None

    def put(self, step: ReceivedStep, while_waiting: Callable[[], None] = lambda: None) -> bool:
        """Waits while too many wait, and calls `while_waiting` then, ten times a second. False: nobody will
        take it any more.
        """
        while not self._closed.is_set():
            try:
                self._steps.put(step, timeout=_LOOK)
            except queue.Full:
                while_waiting()
            else:
                return True
        return False

    def begin(self, rank: int) -> None:
        with self._lock:
            self._ended.discard(rank)

    def end(self, rank: int) -> None:
        with self._lock:
            self._ended.add(rank)

    def fail(self, error: BaseException) -> None:
        """The one who takes steps gets this error."""
        self._fault = error
        self._closed.set()

    def close(self) -> None:
        self._closed.set()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def __iter__(self) -> Iterator[ReceivedStep]:
        """Ends when every rank has ended and nothing waits."""
        while True:
            try:
                yield self._steps.get(timeout=_LOOK)
                continue
            except queue.Empty:
                pass
            if self._fault is not None:
                raise self._fault
            with self._lock:
                over = self._ended >= self.ranks
            if (over and self._steps.empty()) or self._closed.is_set():
                return


def refusal(rank: int, ranks: frozenset[int]) -> str:
    """Why a rank is not checked; empty: it is."""
    return "" if rank in ranks else f"rank {rank} is not in rank_list {sorted(ranks)} of the checker"


def say_lost(name: str, rank: int) -> None:
    log.warning("%s (rank %d) has gone without a word: what it sent is checked", name, rank)
