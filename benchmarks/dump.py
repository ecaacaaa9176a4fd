# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What does the data dump cost a training step? Two small decoders: one bound by operator calls, one by
arithmetic.

    python benchmarks/dump.py --reference-python PYTHON --out DIR

Each case has a process of its own. In every round it makes some steps without a call of the tool and some
that are recorded, so its ratio compares equal steps of one process; mindstudio-probe, which stays in the way
once it is loaded, is compared with a process that never loads it. Records are compared before anything is
timed.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import measure
from measure import Worker

# Case -> (task, level, summary mode); and what it may cost, relative to a step without the tool.
_CASES: dict[str, tuple[str, str, str]] = {
    "L0": ("statistics", "L0", "statistics"),
    "L1": ("statistics", "L1", "statistics"),
    "mix": ("statistics", "mix", "statistics"),
    "structure": ("structure", "mix", "statistics"),
    "md5 L1": ("statistics", "L1", "md5"),
    "tensor L1": ("tensor", "L1", "statistics"),
}
_MOST = {
    "operator": {"L0": 1.15, "L1": 1.6, "mix": 1.8, "structure": 1.3, "md5 L1": 1.7},
    "compute": {"L0": 1.05, "L1": 1.15, "mix": 1.2, "md5 L1": 1.25},
}
_MOST_OF_WRITE = 1.3  # tensor L1: of the longer of a plain step and a plain write of the files
_MOST_MEMORY_MIB = 64.0
_STEPS = {"operator": 10, "compute": 1}  # in a row


@dataclass
class Result:
    size: str
    case: str
    plain: list[float] = field(default_factory=list)  # seconds a step, the median of each round
    recorded: list[float] = field(default_factory=list)
    unloaded: list[float] = field(default_factory=list)  # of the process that never loads a tool
    write: list[float] = field(default_factory=list)  # plain writes of the files of a step
    reference: list[float] = field(default_factory=list)  # mindstudio-probe
    extra_mib: float = 0.0

    def cost(self) -> float:
        return measure.median_ratio(self.recorded, self.plain)


def _config(task: str, level: str, mode: str) -> dict[str, Any]:
    section = {} if task == "structure" else {"summary_mode": mode}
    return {"task": task, "level": level, "rank": [], "step": [], task: section}


def _worker(python: str, size: str, config: dict[str, Any] | None, directory: Path) -> Worker:
    # mindstudio-probe refuses names with spaces.
    directory = directory.with_name(directory.name.replace(" ", "_"))
    directory.mkdir(parents=True)
    settings = {"size": size, "config": config, "directory": str(directory)}
    return Worker(python, "dump_worker.py", settings, directory / "log.txt")


def _check_results(ours: Worker, theirs: Worker) -> None:
    """The records that both tools made of the same step hold the same numbers."""
    loaded = []
    for worker in (ours, theirs):
        directory = Path(worker.ask("files_of_last_step")["directory"])
        loaded.append(json.loads(next(directory.rglob("dump.json")).read_text())["data"])
    shared = [name for name in loaded[0] if name in loaded[1] and name.endswith(".forward")]
    if len(shared) < 100:
        raise RuntimeError(f"expected the same records from both tools, found {len(shared)} in common")
    for name in shared:
        for mine, other in zip(loaded[0][name]["output"], loaded[1][name]["output"]):
            if mine is None or "Norm" not in mine or mine["Norm"] is None:
                continue
            if not math.isclose(mine["Norm"], other["Norm"], rel_tol=1e-4):
                raise RuntimeError(f"{name}: the norms differ: {mine['Norm']} and {other['Norm']}")


def _measure_size(python: str, reference: str | None, size: str, rounds: int, out: Path) -> list[Result]:
    results = {case: Result(size, case) for case in _CASES}
    workers = {
        case: _worker(python, size, _config(*what), out / size / case) for case, what in _CASES.items()
    }
    unloaded = _worker(python, size, None, out / size / "unloaded")
    theirs: dict[str, Worker] = {}
    if reference is not None:
        theirs = {
            case: _worker(reference, size, _config(*_CASES[case]), out / size / f"reference_{case}")
            for case in ("L0", "L1", "mix")
        }
    everyone = [unloaded, *workers.values(), *theirs.values()]
    try:
        unloaded.ask("plain_steps", 2)
        for worker in theirs.values():
            worker.ask("steps", 1)
        # Tensors come last: their files are removed, and what was just removed slows the making of others.
        for cases in ([case for case in _CASES if case != "tensor L1"], ["tensor L1"]):
            for case in cases:
                results[case].extra_mib = _extra_memory(workers[case])
            if theirs and "L1" in cases:
                _check_results(workers["L1"], theirs["L1"])
            for index in range(rounds):
                random.Random(index).shuffle(cases)
                for case in cases:
                    reference_worker = theirs.get(case) if index < 3 else None  # its steps take seconds
                    _measure_round(results[case], unloaded, workers[case], reference_worker)
    finally:
        for worker in everyone:
            worker.close()
    return list(results.values())


def _extra_memory(worker: Worker) -> float:
    """MiB at the peak of recorded steps above that of plain ones."""
    worker.ask("plain_steps", 2)
    peaks = []
    for request in ("plain_steps", "steps"):
        worker.ask("reset_peak")
        worker.ask(request, 3)
        peaks.append(float(worker.ask("peak_mib")))
    return peaks[1] - peaks[0]


def _measure_round(result: Result, unloaded: Worker, worker: Worker, reference: Worker | None) -> None:
    def median(of: Worker, request: str, steps: int) -> float:
        return float(statistics.median(of.ask(request, steps)))

    steps = _STEPS[result.size]
    result.unloaded.append(median(unloaded, "plain_steps", steps))
    result.plain.append(median(worker, "plain_steps", steps))
    result.recorded.append(median(worker, "steps", steps))
    if result.case == "tensor L1":
        result.write.append(worker.ask("plain_write"))
    if reference is not None:
        result.reference.append(median(reference, "steps", 1))


def _row(result: Result) -> list[str]:
    most = _MOST[result.size].get(result.case)
    cost = result.cost()
    if result.case == "tensor L1":
        floor = [max(plain, write) for plain, write in zip(result.plain, result.write)]
        text = f"{cost:.2f}x"
        bound = measure.against(measure.median_ratio(result.recorded, floor), _MOST_OF_WRITE, at_most=True)
    else:
        text = measure.against(cost, most, at_most=True) if most else f"{cost:.2f}x"
        bound = ""
    off = f"{measure.median_ratio(result.plain, result.unloaded):.2f}x"
    gain = ""
    if result.reference:
        theirs = measure.median_ratio(result.reference, result.unloaded)
        gain = f"{theirs:.1f}x"
    memory = measure.against(result.extra_mib, _MOST_MEMORY_MIB, at_most=True).replace("x", " MiB", 1)
    if result.case == "tensor L1":
        memory = f"{result.extra_mib:.0f} MiB"
    plain = measure.duration(statistics.median(result.plain))
    return [result.size, result.case, plain, off, text, bound, gain, memory]


def benchmark(python: str, reference: str | None, out: Path, rounds: int) -> str:
    """The table, in Markdown."""
    header = ["model", "case", "plain step", "loaded, off", "recorded", "of a plain write"]
    header += ["mindstudio-probe", "memory"]
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        for size in _STEPS:
            results += _measure_size(python, reference, size, rounds, Path(scratch))
    markdown = measure.table(header, [_row(result) for result in results])
    measure.write_results(out, "dump", [asdict(result) for result in results], markdown)
    return markdown


def main() -> int:
    options = measure.parser(__doc__, 9, needs_reference=False).parse_args()
    python, out = options.reference_python, options.out
    return measure.run_alone("dump", lambda: benchmark(sys.executable, python, out, options.rounds))


if __name__ == "__main__":
    sys.exit(main())
