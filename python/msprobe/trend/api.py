# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The questions of the page about records of the monitor, answered as those about graphs are
(viewer/api.py).

| name | members | answer |
|---|---|---|
| files | | `trend`: true; `version` |
| runs | | `runs`: name, steps, first, last, alarms; `series`: rows in the order of SERIES, of all runs |
| curves | `keys`, `first`, `last`, `points` | `curves`: of each key one of each run, null: it has none |
| band | `key`, `steps` | `band`: half the width of the reference's noise at these steps |
| partings | | `done`, `progress`, `comparisons` of the first run with each other one |

A point of a curve: first step, last step, min, max, mean (null: none is finite), how many are not finite.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from msprobe.files.page import strict
from msprobe.native import Error, InvalidArgument, __version__, core
from msprobe.trend.comparison import Comparison
from msprobe.trend.ranks import compare_all_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.trend.record import Record

Answer = dict[str, Any]
SERIES = ("key", "quantity", "metric", "name", "scope", "layer", "unit")
_MOST_KEYS = 3000
_MOST_POINTS = 2000
_MOST_ALARMS = 500
_MOST_PARTINGS = 200
_EXPORTED_POINTS = 400_000  # of all series of a page together: some MB
_END = (1 << 62) - 1


class TrendApi:
    """Thread-safe."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = list(records)
        self._questions = {
            "files": self._files,
            "runs": self._runs,
            "curves": self._curves,
            "band": self._band,
            "partings": self._partings,
        }
        self._lock = threading.Lock()
        self._comparing: threading.Thread | None = None
        self._comparisons: list[Comparison | str] = []  # a sentence: why there is none
        self._progress = 0.0
        self._ends = False

    def answer(self, name: str, asked: Answer) -> Answer:
        """Raises msprobe.Error with a sentence for the page."""
        if name not in self._questions:
            raise InvalidArgument(f"there is no question {name!r}")
        return self._questions[name](asked)

    def close(self) -> None:
        """Ends a comparison that is at work."""
        self._ends = True
        if self._comparing is not None:
            self._comparing.join()

    def exported(self) -> Answer:
        """Everything that a page without a server can be asked."""
        runs = self._runs({})
        keys = [row[0] for row in runs["series"]]
        points = max(40, min(800, _EXPORTED_POINTS // max(1, len(keys) * len(self._records))))
        curves = self._curves_of(keys, -_END, _END, points)
        self._start_comparing()
        if self._comparing is not None:
            self._comparing.join()
        partings = self._partings({})
        bands: Answer = {}
        if len(self._records) > 1:
            shown = [row[0] for row in runs["series"] if row[4] == "model"]
            shown += [one["series"] for found in partings["comparisons"] for one in found.get("partings", [])]
            for key in dict.fromkeys(shown):
                if key in self._records[0].numbers and curves[key][0]:
                    steps = [point[0] for point in curves[key][0]]
                    bands[key] = self._band({"key": key, "steps": steps})["band"]
        return {"version": __version__, "runs": runs, "curves": curves, "bands": bands, "partings": partings}

    # ---- questions

    def _files(self, asked: Answer) -> Answer:
        return {"trend": True, "files": [], "dumps": [], "version": __version__}

    def _runs(self, asked: Answer) -> Answer:
        with self._lock:
            for record in self._records:
                record.refresh()
            series = {one.key: one for record in self._records for one in record.series}
            return {
                "runs": [_run(record) for record in self._records],
                "series": [[getattr(one, member) for member in SERIES] for one in series.values()],
            }

    def _curves(self, asked: Answer) -> Answer:
        keys = asked.get("keys")
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise InvalidArgument("keys: expected the keys of series")
        first, last = _integer(asked, "first", -_END), _integer(asked, "last", _END)
        points = max(1, min(_integer(asked, "points", 400), _MOST_POINTS))
        return {"curves": self._curves_of(keys[:_MOST_KEYS], first, last, points)}

    def _curves_of(self, keys: Sequence[str], first: int, last: int, points: int) -> Answer:
        of_runs = [record.curves(keys, first, last, points) for record in self._records]
        return {
            key: [None if key not in curves else [_point(one) for one in curves[key]] for curves in of_runs]
            for key in keys
        }

    def _band(self, asked: Answer) -> Answer:
        key, steps = asked.get("key"), asked.get("steps")
        record = self._records[0]
        if not isinstance(key, str) or key not in record.numbers:
            raise InvalidArgument(f"key: expected a series of {record.name}, found {key!r}")
        if not isinstance(steps, list) or not all(type(step) is int and abs(step) < _END for step in steps):
            raise InvalidArgument("steps: expected whole numbers")
        wanted = sorted(steps[:_MOST_POINTS])
        band = core.monitor_noise_band(record.reader, record.numbers[key], wanted)
        return {"band": [_short(half) for half in band]}

    def _partings(self, asked: Answer) -> Answer:
        self._start_comparing()
        with self._lock:
            found = list(self._comparisons)
        done = len(found) == len(self._records) - 1
        return {
            "done": done,
            "progress": 1.0 if done else self._progress,
            "comparisons": [{"fault": one} if isinstance(one, str) else _comparison(one) for one in found],
        }

    # ---- a comparison reads everything up to where runs diverge: beside the first picture

    def _start_comparing(self) -> None:
        with self._lock:
            if self._comparing is None and len(self._records) > 1:
                self._comparing = threading.Thread(target=self._compare, daemon=True)
                self._comparing.start()

    def _compare(self) -> None:
        reference, *targets = self._records
        for number, target in enumerate(targets):

            def progress(share: float, number: int = number) -> bool:
                self._progress = (number + share) / len(targets)
                return not self._ends

            try:
                found: Comparison | str = compare_all_ranks(reference, target, progress)
            except Error as error:
                found = str(error)
            with self._lock:
                self._comparisons.append(found)


def _run(record: Record) -> Answer:
    return {
        "name": record.name,
        "rank": None if record.rank < 0 else record.rank,
        "steps": record.steps,
        "first": record.first,
        "last": record.last,
        "alarmCount": len(record.alarms),
        "alarms": [
            [alarm.step, alarm.rule, alarm.series, strict(alarm.value), strict(alarm.expected)]
            for alarm in record.alarms[:_MOST_ALARMS]
        ],
    }


def _comparison(one: Comparison) -> Answer:
    first = one.first_difference
    return {
        "steps": one.steps,
        "series": one.series,
        "firstDifference": None if first is None else [first.step, first.series],
        "partingCount": len(one.partings),
        "partings": [
            {
                "step": part.step,
                "series": part.series,
                "reference": strict(part.reference),
                "target": strict(part.target),
                "band": part.band,
            }
            for part in one.partings[:_MOST_PARTINGS]
        ],
    }


def _point(point: tuple[int, int, float, float, float, int, int]) -> list[Any]:
    first, last, low, high, mean, count, bad = point
    if first == last and count == 1:
        short = _short(mean)
        return [first, last, short, short, short, bad]
    return [first, last, _short(low), _short(high), _short(mean), bad]


def _short(number: float) -> float | None:
    """Six digits are more than a screen shows."""
    return None if number != number or abs(number) == float("inf") else float(f"{number:.6g}")


def _integer(asked: Answer, name: str, otherwise: int) -> int:
    value = asked.get(name, otherwise)
    if type(value) is not int or abs(value) > _END:
        raise InvalidArgument(f"{name}: expected a whole number, found {value!r}")
    return value
