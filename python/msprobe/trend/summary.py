# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What `msprobe trend` says: on a terminal, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from msprobe.files.left_out import joined
from msprobe.files.left_out import lines as missing_lines
from msprobe.files.page import strict
from msprobe.files.ranges import numbers, which_ranks
from msprobe.terminal.printable import printable
from msprobe.trend.ranks import outliers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.terminal.colour import Paint
    from msprobe.trend.comparison import Comparison
    from msprobe.trend.ranks import Outlier
    from msprobe.trend.record import Record

_MOST_LINES = 8
_MOST_METRICS = 24
_MOST_JSON = 1000
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 32
_END = (1 << 62) - 1


def console_text(records: Sequence[Record], comparisons: Sequence[Comparison], paint: Paint) -> str:
    lines: list[str] = []
    for comparison in comparisons:
        lines += [*_comparison_lines(comparison, paint), ""]
    for record in records:
        lines += [*_record_lines(record, paint), ""]
    return "\n".join(printable(line) if not line.startswith("\x1b") else line for line in lines[:-1]) + "\n"


def as_json(records: Sequence[Record], comparisons: Sequence[Comparison]) -> str:
    content = {
        "runs": [_run(record) for record in records],
        "comparisons": [_comparison(one) for one in comparisons],
    }
    return json.dumps(strict(content), indent=2, ensure_ascii=False) + "\n"


def has_findings(records: Sequence[Record], comparisons: Sequence[Comparison]) -> bool:
    if any(one.partings or not one.is_whole for one in comparisons):
        return True
    ranks = [one for record in records for one in record.all_ranks()]
    return any(one.alarms or one.unread for one in ranks) or any(map(outliers, records))


def _comparison_lines(one: Comparison, paint: Paint) -> list[str]:
    lines = [paint.answer(printable(one.sentence), good=not one.partings and one.is_whole)]
    lines += [f"  not compared: {line}" for line in missing_lines(one.left_out, beside=one.sentence)]
    if one.partings:
        lines += ["", f"  {'step':>8}  {'reference':>12}  {'target':>12}  {'band':>10}  series"]
        lines += [
            f"  {part.step:>8}  {part.reference:>12.6g}  {part.target:>12.6g}  {part.band:>10.2g}  "
            f"{part.series}"
            for part in one.partings[:_MOST_LINES]
        ]
        more = len(one.partings) - _MOST_LINES
        if more > 0:
            lines.append(f"  and {more} more series up to step {one.partings[-1].step}")
    if one.first_difference is not None:
        first = one.first_difference
        lines.append(f"  the first bit that differs: step {first.step}, {first.series}")
    lines.append(paint.faint(f"  {one.series} common series, {one.steps} common steps looked at"))
    missing = [
        f"{count} series only in {name}"
        for count, name in ((one.only_reference, one.reference), (one.only_target, one.target))
        if count
    ]
    if missing:
        lines.append(paint.faint(printable(f"  {', '.join(missing)}")))
    return lines


def _record_lines(record: Record, paint: Paint) -> list[str]:
    ranks = record.all_ranks()
    found = [alarm for one in ranks for alarm in one.alarms]
    alarms = len(found)
    said = f"{alarms} alarm{'s' if alarms != 1 else ''}" if alarms else "no alarm"
    steps = f"steps {record.first} to {record.last}" if record.steps else "no step"
    name = record.name if record.rank < 0 else f"{record.name}, rank {record.rank}"
    if len(ranks) > 1:
        name = f"{record.name}, {numbers('rank', [one.rank for one in ranks])}"
    lines = [
        paint.answer(
            printable(f"{name}: {steps} ({record.steps} recorded), {len(record.series)} series, {said}"),
            good=not alarms,
        )
    ]
    if alarms:
        found.sort(key=lambda alarm: alarm.step)
        lines += [f"  {alarm.message}" for alarm in found[:_MOST_LINES]]
        if alarms > _MOST_LINES:
            lines.append(f"  and {alarms - _MOST_LINES} more, the last at step {found[-1].step}")
    lines += [f"  not read: rank {rank}: {reason}" for rank, reason in record.unread.items()]
    lines += _outlier_lines(record)
    metrics = _of_model(record)
    if metrics:
        width = max(len(key) for key in metrics)
        lines += ["", f"  {'':<{width}}  {'first':>10}  {'last':>10}  {'least':>10}  {'most':>10}"]
        lines += [
            f"  {key:<{width}}  {one['first']:>10.4g}  {one['last']:>10.4g}  {one['min']:>10.4g}  "
            f"{one['max']:>10.4g}  {one['line']}"
            for key, one in list(metrics.items())[:_MOST_METRICS]
        ]
        if len(metrics) > _MOST_METRICS:
            lines.append(f"  and {len(metrics) - _MOST_METRICS} more of the model")
    return lines


def _outlier_lines(record: Record) -> list[str]:
    """The ranks that leave the others, those of one step and series together."""
    together: dict[tuple[int, str], list[Outlier]] = {}
    for one in outliers(record):
        together.setdefault((one.step, one.series), []).append(one)
    total = len(record.all_ranks())
    lines = []
    for (step, series), group in list(together.items())[:_MOST_LINES]:
        first = group[0]
        verb = "leave" if len(group) > 1 else "leaves"
        which = which_ranks([one.rank for one in group], total)
        lines.append(
            f"  step {step}: {which} {verb} the others: {series} is {first.value:.6g}, the median of all "
            f"ranks {first.others:.6g} ± {first.band:.2g}"
        )
    more = len(together) - _MOST_LINES
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _of_model(record: Record) -> dict[str, dict[str, Any]]:
    """The series of the whole model, in short."""
    keys = [series.key for series in record.series if series.scope == "model"]
    ends = [_numbers_at(record, keys, step) for step in (record.first, record.last)]
    found = {}
    for key, points in record.curves(keys, -_END, _END, 8 * _WIDTH).items():
        finite = [point for point in points if point[5]]
        if not finite:
            continue
        found[key] = {
            "first": ends[0].get(key, finite[0][4]),
            "last": ends[1].get(key, finite[-1][4]),
            "min": min(point[2] for point in finite),
            "max": max(point[3] for point in finite),
            "line": _line([point[4] for point in finite]),
        }
    return found


def _numbers_at(record: Record, keys: list[str], step: int) -> dict[str, float]:
    _, numbers = record.reader.values([record.numbers[key] for key in keys], step, step)
    return {key: of[0] for key, of in zip(keys, numbers) if of and of[0] is not None}


def _line(numbers: list[float]) -> str:
    """A curve in one line of text."""
    size = min(_WIDTH, len(numbers))
    parts = [
        numbers[len(numbers) * i // size : max(len(numbers) * (i + 1) // size, len(numbers) * i // size + 1)]
        for i in range(size)
    ]
    means = [sum(part) / len(part) for part in parts]
    low, high = min(means), max(means)
    if not high > low:
        return _BARS[0] * len(means)
    return "".join(
        _BARS[min(int((mean - low) / (high - low) * len(_BARS)), len(_BARS) - 1)] for mean in means
    )


def _run(record: Record) -> dict[str, Any]:
    return {
        "path": str(record.path),
        "name": record.name,
        "rank": None if record.rank < 0 else record.rank,
        "steps": record.steps,
        "first_step": record.first if record.steps else None,
        "last_step": record.last if record.steps else None,
        "series": len(record.series),
        "ranks": [one.rank for one in record.all_ranks() if one.rank >= 0],
        "outliers": [asdict(one) for one in outliers(record)][:_MOST_JSON],
        "alarm_count": len(record.alarms),
        "alarms": [asdict(alarm) for alarm in record.alarms[:_MOST_JSON]],
        "model": {
            key: {name: value for name, value in one.items() if name != "line"}
            for key, one in _of_model(record).items()
        },
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "reference": one.reference,
        "target": one.target,
        "status": "part" if one.partings else "noise" if one.first_difference else "equal",
        "sentence": one.sentence,
        "ranks": one.ranks,
        "rank": one.rank,
        "in_ranks": list(one.in_ranks),
        "left_out": [part.content for part in joined(one.left_out)],
        "steps": one.steps,
        "series": one.series,
        "only_reference": one.only_reference,
        "only_target": one.only_target,
        "first_difference": None if one.first_difference is None else asdict(one.first_difference),
        "parting_count": len(one.partings),
        "partings": [asdict(part) for part in one.partings[:_MOST_JSON]],
    }
