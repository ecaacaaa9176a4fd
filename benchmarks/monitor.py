# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What does the monitor cost a training step? Two small decoders: one bound by arithmetic, one by operator
calls.

    python benchmarks/monitor.py --reference-python PYTHON --out DIR

Each case has a process of its own. In every round each makes some steps, in an order that changes, beside a
process without a monitor; reported are medians of the ratios of a round, of time and of the processor's time,
which other programs on the machine disturb less. Before anything is timed, the weights after some steps are
compared with those of a training without a monitor: to the last bit.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import measure
from measure import Worker

_CHEAP = ["training", "gradient", "weight", "moment"]
_THEIRS = {
    "targets": {}, "format": "csv", "ops": ["norm", "max", "min", "mean", "nans", "zeros"],
    "wg_distribution": True, "param_distribution": True, "mv_distribution": True,
}  # fmt: skip
# Size -> case -> who, options, what it may cost.
_CASES: dict[str, dict[str, tuple[str, dict[str, Any], float | None]]] = {
    "compute": {
        "every step": ("ours", {"quantities": _CHEAP}, 1.02),
        "every tenth": ("ours", {"quantities": _CHEAP, "every": 10}, 1.002),
        "and activations": ("ours", {"quantities": [*_CHEAP, "activation"]}, 1.05),
        "existing tool": ("theirs", _THEIRS, None),
        "existing tool, and activations": (
            "theirs", {**_THEIRS, "xy_distribution": True, "all_xy": True}, None,
        ),
    },
    "operator": {
        "every step": ("ours", {"quantities": _CHEAP}, 1.15),
        "every tenth": ("ours", {"quantities": _CHEAP, "every": 10}, None),
        "and activations": ("ours", {"quantities": [*_CHEAP, "activation"]}, None),
        "existing tool": ("theirs", _THEIRS, None),
    },
}  # fmt: skip
_STEPS = {"compute": 3, "operator": 20}  # in a row
_TENTH = {"compute": 10, "operator": 20}  # where one step in ten is recorded


@dataclass
class Result:
    size: str
    case: str
    most: float | None
    wall: list[float] = field(default_factory=list)  # of each round, relative to a training without
    processor: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)  # seconds a step


def _worker(python: str, size: str, kind: str, options: dict[str, Any], directory: Path) -> Worker:
    directory.mkdir(parents=True)
    settings = {"size": size, "kind": kind, "options": options, "directory": str(directory)}
    return Worker(python, "monitor_worker.py", settings, directory / "log.txt")


def _measure_size(python: str, reference: str | None, size: str, rounds: int, out: Path) -> list[Result]:
    plain = _worker(python, size, "none", {}, out / f"{size}_plain")
    workers = {}
    for number, (case, (kind, options, _)) in enumerate(_CASES[size].items()):
        if kind == "ours" or reference is not None:
            interpreter = python if kind == "ours" else str(reference)
            workers[case] = _worker(interpreter, size, kind, options, out / f"{size}_{number}")
    results = {case: Result(size, case, _CASES[size][case][2]) for case in workers}
    try:
        everyone = [plain, *workers.values()]
        for worker in everyone:
            worker.ask("steps", 3)
        expected = plain.ask("weights")
        differing = [case for case, worker in workers.items() if worker.ask("weights") != expected]
        if differing:
            print(f"{size}: not the weights of a training without a monitor: {', '.join(differing)}")
        if any(_CASES[size][case][0] == "ours" for case in differing):
            raise RuntimeError("the weights differ from those of a training without a monitor")
        for index in range(rounds):
            order = list(workers)
            random.Random(index).shuffle(order)
            for case in order:
                steps = (_TENTH if case == "every tenth" else _STEPS)[size]
                before = plain.ask("steps", steps)
                taken = workers[case].ask("steps", steps)
                after = plain.ask("steps", steps)
                for part, ratios in ((0, results[case].wall), (1, results[case].processor)):
                    without = statistics.median(one[part] for one in [*before, *after])
                    ratios.append(_typical([one[part] for one in taken], case) / without)
                results[case].plain.append(statistics.median(one[0] for one in before))
    finally:
        for worker in [plain, *workers.values()]:
            worker.close()
    return list(results.values())


def _typical(seconds: list[float], case: str) -> float:
    """Of a step. One in ten is recorded where each tenth is: a median would not see it."""
    if case != "every tenth":
        return statistics.median(seconds)
    usual = statistics.median(seconds)
    tens = [seconds[i : i + 10] for i in range(0, len(seconds), 10)]
    return usual + max(0.0, statistics.median(max(ten) for ten in tens) - usual) / 10


def benchmark(python: str, reference: str | None, out: Path, rounds: int, sizes: list[str]) -> str:
    """The table, in Markdown."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        for size in sizes:
            results += _measure_size(python, reference, size, rounds, Path(scratch))
    rows = []
    for one in results:
        wall, processor = statistics.median(one.wall), statistics.median(one.processor)
        rows.append(
            [
                one.size,
                one.case,
                measure.duration(statistics.median(one.plain)),
                f"{wall:.3f}x",
                f"{processor:.3f}x",
                "" if one.most is None else f"{one.most:.3f}x",
            ]
        )
    header = ["model", "case", "plain step", "time", "processor time", "wanted"]
    markdown = measure.table(header, rows)
    measure.write_results(out, "monitor", [asdict(result) for result in results], markdown)
    return markdown


def main() -> int:
    parser = measure.parser(__doc__, 7, needs_reference=False)
    parser.add_argument("--sizes", nargs="+", choices=list(_CASES), default=list(_CASES))
    o = parser.parse_args()
    return measure.run_alone(
        "monitor", lambda: benchmark(sys.executable, o.reference_python, o.out, o.rounds, o.sizes)
    )


if __name__ == "__main__":
    sys.exit(main())
