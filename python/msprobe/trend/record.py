# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A record of the monitor, opened for reading: its series, its steps and its alarms."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.ranges import numbers
from msprobe.files.regular_file import read_text
from msprobe.files.run_folder import MONITOR, offset_of
from msprobe.native import Error, InvalidArgument, IoError, core

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msprobe._core import MonitorSeries, MonitorStoreReader

ALARMS = "alarms.jsonl"
_NAME = re.compile(r"monitor(\.rank([0-9]{1,9}))?\.db")
_MOST_BYTES = 64 << 20  # of alarms: a file beyond it was not written by the monitor


@dataclass(frozen=True)
class Alarm:
    """A line of alarms.jsonl. value: a NaN or an infinity is a word."""

    step: int
    rule: str
    series: str
    value: float | str
    expected: float | None
    message: str


def stores_of(path: Path) -> dict[int, Path]:
    """The stores of a record by rank; -1: that of all processes. Empty where there is none.

    path: a store itself, the folder of a record, or that of a run with its record in it.
    """
    if path.is_file():
        match = _NAME.fullmatch(path.name)
        return {} if match is None else {_rank(match): path}
    for folder in (path, path / MONITOR):
        found = {}
        if folder.is_dir():
            for file in sorted(folder.iterdir()):
                match = _NAME.fullmatch(file.name)
                if match is not None and file.is_file():
                    found[_rank(match)] = file
        if found:
            return found
    return {}


def _rank(match: re.Match[str]) -> int:
    return int(match[2]) if match[2] else -1


class Record:
    """Thread-safe. Also of a training that still runs: refresh() sees what has come.

    name: what the user calls it.
    """

    def __init__(self, path: Path, name: str, rank: int | None = None, shift: int = 0) -> None:
        """rank: of a record with a store for each process; None: the first. shift: added to its steps. Raises
        InvalidArgument where there is no record, IoError, and FormatError for a file that is none.
        """
        stores = stores_of(path)
        if not stores:
            raise InvalidArgument(
                f"{path}: expected a record of the monitor: a folder with monitor.db, or that of a run that "
                "was recorded with --with monitor"
            )
        if rank is not None and rank not in stores:
            ranks = [one for one in stores if one >= 0]
            there = numbers("rank", ranks) if ranks else "all processes in one"
            raise InvalidArgument(f"{path}: there is no store of rank {rank}; there is: {there}")
        self.path = path
        self.name = name
        self.rank = min(stores) if rank is None else rank
        self.ranks = sorted(one for one in stores if one >= 0)
        self.shift = shift
        self._stores = stores
        self._is_chosen = rank is not None
        self._others: list[Record] | None = None
        self.unread: dict[int, str] = {}  # ranks whose store cannot be read, once all_ranks() was asked
        self.reader: MonitorStoreReader = core.MonitorStoreReader(stores[self.rank], shift)
        self._alarm_file = stores[self.rank].parent / ALARMS
        self.refresh()

    def refresh(self) -> None:
        """Raises IoError and FormatError."""
        self.steps, self.first, self.last = self.reader.extent()
        self.series: list[MonitorSeries] = self.reader.series()
        self.numbers = {series.key: number for number, series in enumerate(self.series)}
        self.info = self.reader.info()
        alarms = (
            replace(alarm, step=alarm.step + self.shift) for alarm in _alarms(self._alarm_file, self.rank)
        )
        self.alarms = [alarm for alarm in alarms if self.first <= alarm.step <= self.last]

    def all_ranks(self) -> list[Record]:
        """This record, and those of the other ranks, by rank; this one alone where its rank was asked for."""
        if self._others is None:
            self._others = []
            for rank in self.ranks if not self._is_chosen and self.rank >= 0 else ():
                try:
                    if rank != self.rank:
                        self._others.append(Record(self.path, self.name, rank, self.shift))
                except Error as error:
                    self.unread[rank] = str(error)
        return [self, *self._others]

    def values(self, key: str) -> dict[int, float]:
        """All numbers of a series, by step; empty: there is none of this name."""
        if key not in self.numbers or not self.steps:
            return {}
        steps, of_series = self.reader.values([self.numbers[key]], self.first, self.last)
        return {step: value for step, value in zip(steps, of_series[0]) if value is not None}

    def curves(
        self, keys: Iterable[str], first: int, last: int, points: int
    ) -> dict[str, list[tuple[int, int, float, float, float, int, int]]]:
        """Of the series that this record has."""
        known = [key for key in keys if key in self.numbers]
        found = self.reader.curves([self.numbers[key] for key in known], first, last, points)
        return dict(zip(known, found))


def _alarms(path: Path, rank: int) -> list[Alarm]:
    """By step. A line that is not whole, as the last one of a killed process, is left out."""
    try:
        if not path.is_file():
            return []
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidArgument(f"{path}: expected at most {_MOST_BYTES >> 20} MiB of alarms")
        text = read_text(path, errors="replace")
    except OSError as error:
        raise IoError(f"{path}: cannot be read: {error.strerror}") from error
    found = []
    for line in text.splitlines():
        try:
            read = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(read, dict) and (rank < 0 or read.get("rank") == rank):
            alarm = _alarm(read)
            if alarm is not None:
                found.append(alarm)
    return sorted(found, key=lambda alarm: alarm.step)


def _alarm(read: dict[str, Any]) -> Alarm | None:
    step, value, expected = read.get("step"), read.get("value"), read.get("expected")
    if not isinstance(step, int) or not isinstance(value, (int, float, str)):
        return None
    texts = [read.get(key) for key in ("rule", "series", "message")]
    if not all(isinstance(text, str) for text in texts):
        return None
    return Alarm(
        step=step,
        rule=str(texts[0]),
        series=str(texts[1]),
        value=value,
        expected=float(expected) if isinstance(expected, (int, float)) else None,
        message=str(texts[2]),
    )


def open_records(paths: Iterable[str], rank: int | None = None, offset: int | None = None) -> list[Record]:
    """By the names of their paths, which are told apart. offset: the step of the first one at which the
    others begin; None: as the runs say. Raises what Record raises.
    """
    given = list(paths)
    first = Path(given[0]) if given else Path()
    shifts = [offset_of(Path(path), first, offset if place else 0) for place, path in enumerate(given)]
    return [Record(Path(path), name, rank, shift) for path, name, shift in zip(given, _names(given), shifts)]


def _names(paths: list[str]) -> list[str]:
    """The shortest ends of the paths that differ; a number where they are the same."""
    parts = [Path(path).absolute().parts for path in paths]
    for length in range(1, max(len(one) for one in parts) + 1):
        names = ["/".join(one[-length:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({number})" for number, name in enumerate(names, 1)]
