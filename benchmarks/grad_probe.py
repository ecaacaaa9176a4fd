# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How long does training wait for the gradient probe? 100 M parameters, an optimizer that does nothing.

    python benchmarks/grad_probe.py --reference-python PYTHON --plain-read LIBRARY --out DIR

Three things are timed in turns, round by round: a plain read of all gradients, a step with this probe (both
in one process), and a step with mindstudio-probe's probe (in a process of its own). All with the same number
of threads. The results of the two tools are compared first, on a smaller model.
"""

from __future__ import annotations

import csv
import itertools
import math
import shutil
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import measure
from measure import Worker

_BOUNDS = [-1, 0, 1]
_DTYPES = ("float32", "bfloat16")
_LEVELS = ("L0", "L1", "L2")

# What training may wait, in plain reads of all gradients; and how much less that shall be than with the
# mindstudio-probe.
_MOST_READS = {"L0": 1.5, "L1": 1.5, "L2": 2.0}
_LEAST_GAIN = {"L0": 5.0, "L1": 6.0, "L2": 40.0}

# The norm is the one number that the two compute differently: here in double and rounded once to the dtype of
# the gradient, there by torch.norm, which adds in float. Ours must be the exact one, rounded; theirs must be
# close to ours.
_ROUNDING = {"float32": 1.2e-7, "bfloat16": 2**-8, "float16": 2**-11}
_NORM_TOLERANCE = {"float32": 1e-5, "bfloat16": 2**-7, "float16": 2**-10}


@dataclass(frozen=True)
class Plan:
    python: str
    reference: str
    plain_read: str
    rounds: int
    burst: int  # steps in a row without a pause
    threads: tuple[int, ...]


@dataclass(frozen=True)
class Record:
    """Times are lists of seconds, one of each round; `burst` of each step in a row."""

    dtype: str
    level: str
    threads: int
    gradient_bytes: int
    plain: list[float]
    ours: list[float]
    theirs: list[float]
    burst: list[float]
    ours_peak_mib: float
    theirs_peak_mib: float

    @property
    def reads(self) -> float:
        return measure.median_ratio(self.ours, self.plain)

    @property
    def burst_reads(self) -> float:
        """Of the second half: by then the buffer in front of the disk has had time to fill."""
        return statistics.median(self.burst[len(self.burst) // 2 :]) / statistics.median(self.plain)

    @property
    def gain(self) -> float:
        return measure.median_ratio(self.theirs, self.ours)


def start(plan: Plan, reference: bool, directory: Path, settings: dict[str, Any]) -> Worker:
    name = "theirs" if reference else "ours"
    settings = settings | {"dump": str(directory / name), "plain_read": plan.plain_read, "bounds": _BOUNDS}
    python = plan.reference if reference else plan.python
    return Worker(python, "grad_probe_worker.py", settings, directory / f"{name}.log")


def check_agreement(plan: Plan, directory: Path) -> int:
    """Compares what both tools write for a small model, at every level and dtype.

    Returns how many norms differ in their last digits; raises RuntimeError at any other difference.
    """
    norms = 0
    for dtype, level in itertools.product(("float32", "bfloat16", "float16"), _LEVELS):
        settings = {"size": "small", "dtype": dtype, "level": level, "threads": 1}
        for reference in (False, True):
            with start(plan, reference, directory, settings) as worker:
                worker.ask("steps", 2)
                worker.ask("finish_writing")
                if reference:
                    continue
                if not worker.ask("plain_read_is_right"):
                    raise RuntimeError("the plain read did not read all gradients")
                _check_norms(directory / "ours", worker.ask("exact_norms"), _ROUNDING[dtype])
        norms += _differing_norms(directory / "ours", directory / "theirs", _NORM_TOLERANCE[dtype])
        for name in ("ours", "theirs"):
            shutil.rmtree(directory / name)
    return norms


def _differing_norms(ours: Path, theirs: Path, tolerance: float) -> int:
    files = {path.relative_to(ours) for path in ours.rglob("*") if path.is_file()}
    expected = {path.relative_to(theirs) for path in theirs.rglob("*") if path.is_file()}
    if files != expected:
        raise RuntimeError(f"files of one tool only: {sorted(str(p) for p in files ^ expected)}")
    if not files:
        raise RuntimeError("neither tool has written anything")
    different = 0
    for file in sorted(files):
        if (ours / file).read_bytes() == (theirs / file).read_bytes():
            continue
        if file.suffix != ".csv":
            raise RuntimeError(f"{file}: the two tools wrote different bytes")
        different += _compare_csv(ours / file, theirs / file, tolerance)
    return different


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def _check_norms(dump: Path, exact: dict[str, float], tolerance: float) -> None:
    for path in dump.rglob("*.csv"):
        for row in _rows(path):
            name, norm = row["param_name"], float(row["norm"])
            if not (
                norm == exact[name]
                or _both_nan(norm, exact[name])
                or abs(norm / exact[name] - 1) <= tolerance
            ):
                raise RuntimeError(
                    f"{path.name}: the norm of {name} is {norm}, its exact value is {exact[name]}"
                )


def _both_nan(a: float, b: float) -> bool:
    return math.isnan(a) and math.isnan(b)


def _compare_csv(ours: Path, theirs: Path, tolerance: float) -> int:
    found_rows, wanted_rows = _rows(ours), _rows(theirs)
    if len(found_rows) != len(wanted_rows):
        raise RuntimeError(f"{ours.name}: {len(found_rows)} and {len(wanted_rows)} rows")
    different = 0
    for row, wanted in zip(found_rows, wanted_rows):
        if row == wanted:
            continue
        same_but_norm = {**row, "norm": ""} == {**wanted, "norm": ""}
        found, norm = float(row["norm"]), float(wanted["norm"])
        if not same_but_norm or not abs(found - norm) <= tolerance * abs(norm):
            raise RuntimeError(f"{ours.name}: found {row}, mindstudio-probe has {wanted}")
        different += 1
    return different


def record(plan: Plan, directory: Path, dtype: str, level: str, threads: int) -> Record:
    settings = {"size": "100m", "dtype": dtype, "level": level, "threads": threads}
    plain: list[float] = []
    times: dict[bool, list[float]] = {False: [], True: []}
    with start(plan, False, directory, settings) as ours, start(plan, True, directory, settings) as theirs:
        workers = {False: ours, True: theirs}
        for worker in workers.values():  # allocators, files, threads: once
            _one_step(worker)
        ours.ask("plain_read", 1)
        for number in range(plan.rounds):
            order = [False, True] if number % 2 == 0 else [True, False]
            for reference in order:
                if not reference and number % 4 < 2:
                    plain += ours.ask("plain_read", 1)
                times[reference].append(_one_step(workers[reference]))
                if not reference and number % 4 >= 2:
                    plain += ours.ask("plain_read", 1)
        peaks = {reference: float(worker.ask("peak_mib")) for reference, worker in workers.items()}
        burst = ours.ask("steps", plan.burst)
        ours.ask("finish_writing")
        peaks[False] = max(peaks[False], float(ours.ask("peak_mib")))
        ours.ask("clean")
        size = int(ours.ask("gradient_bytes"))
    return Record(
        dtype, level, threads, size, plain, times[False], times[True], burst, peaks[False], peaks[True]
    )


def _one_step(worker: Worker) -> float:
    """A step after a pause in which everything before it was written."""
    seconds = float(worker.ask("steps", 1)[0])
    worker.ask("finish_writing")
    worker.ask("clean")
    return seconds


def to_markdown(records: list[Record], burst: int) -> str:
    header = [
        "dtype",
        "threads",
        "level",
        "plain read",
        "waits",
        "in plain reads",
        f"in plain reads, {burst} steps without pause",
        "mindstudio-probe waits",
        "gain",
        "memory, ours / theirs",
    ]
    rows = [
        [
            r.dtype,
            str(r.threads),
            r.level,
            measure.duration(statistics.median(r.plain)),
            measure.duration(statistics.median(r.ours)),
            measure.against(r.reads, _MOST_READS[r.level], at_most=True),
            f"{r.burst_reads:.2f}x",
            measure.duration(statistics.median(r.theirs)),
            measure.against(r.gain, _LEAST_GAIN[r.level], at_most=False),
            f"{r.ours_peak_mib:.0f} / {r.theirs_peak_mib:.0f} MiB",
        ]
        for r in records
    ]
    return measure.table(header, rows)


def benchmark(plan: Plan, out: Path, dtypes: tuple[str, ...], levels: tuple[str, ...]) -> str:
    """Checks, measures and writes grad_probe.json and grad_probe.md to `out`. Returns the Markdown."""
    with tempfile.TemporaryDirectory(dir=out) as name:
        directory = Path(name)
        norms = check_agreement(plan, directory)
        cases = itertools.product(dtypes, plan.threads, levels)
        records = [record(plan, directory, dtype, level, threads) for dtype, threads, level in cases]
    markdown = to_markdown(records, plan.burst)
    markdown += (
        f"\nBoth tools wrote the same files for the small model, but for {norms} norms: "
        "ours are exact to the last digit, torch.norm adds in float32.\n"
    )
    measure.write_results(out, "grad_probe", [asdict(r) for r in records], markdown)
    return markdown


def main() -> int:
    parser = measure.parser(__doc__, 9)
    parser.add_argument("--plain-read", required=True, help="libmsprobe_bench_plain_read.so")
    parser.add_argument("--burst", type=int, default=40)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--dtypes", nargs="+", default=list(_DTYPES))
    parser.add_argument("--levels", nargs="+", default=list(_LEVELS))
    o = parser.parse_args()
    plan = Plan(sys.executable, o.reference_python, o.plain_read, o.rounds, o.burst, tuple(o.threads))
    return measure.run_alone("grad_probe", lambda: benchmark(plan, o.out, tuple(o.dtypes), tuple(o.levels)))


if __name__ == "__main__":
    sys.exit(main())
