# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What does the free benchmark cost, beside making every call twice? Forward passes of the two decoders of
dump.py, with every call made once, twice with nothing else done, and twice by each mode.

    python benchmarks/free_benchmark.py --out DIR
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import measure
from measure import Worker

_MODES = ("add_noise", "bit_noise", "change_value", "no_change", "improve_precision", "to_cpu")
_MOST = 1.3  # of a bare double run
# Names of the models, dtypes of their numbers; passes in a row.
_MODELS = (("operator", "float32", 5), ("compute", "float32", 1), ("compute", "bfloat16", 1))


@dataclass
class Result:
    size: str
    dtype: str
    mode: str
    plain: list[float] = field(default_factory=list)  # seconds of a forward pass, the median of each round
    double: list[float] = field(default_factory=list)
    check: list[float] = field(default_factory=list)


def _measure(python: str, result: Result, passes: int, rounds: int, directory: Path) -> None:
    directory.mkdir(parents=True)
    settings = {
        "size": result.size,
        "dtype": result.dtype,
        "mode": result.mode,
        "directory": str(directory),
    }
    with Worker(python, "free_benchmark_worker.py", settings, directory / "log.txt") as worker:
        for request in ("plain", "double", "check"):
            worker.ask(request, 1)
        for _ in range(rounds):
            for request in ("plain", "double", "check"):
                getattr(result, request).append(statistics.median(worker.ask(request, passes)))


def _row(result: Result) -> list[str]:
    cost = measure.median_ratio(result.check, result.double)
    return [
        f"{result.size}, {result.dtype}",
        result.mode,
        measure.duration(statistics.median(result.plain)),
        f"{measure.median_ratio(result.double, result.plain):.2f}x",
        f"{measure.median_ratio(result.check, result.plain):.2f}x",
        measure.against(cost, _MOST, at_most=True),
    ]


def benchmark(python: str, out: Path, rounds: int) -> str:
    """The table, in Markdown."""
    results = []
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        for size, dtype, passes in _MODELS:
            for mode in _MODES:
                if mode == "improve_precision" and dtype == "float32":
                    continue  # it changes nothing there
                result = Result(size, dtype, mode)
                _measure(python, result, passes, rounds, Path(scratch) / size / dtype / mode)
                results.append(result)
    header = ["model", "mode", "forward pass", "every call twice", "free benchmark", "of every call twice"]
    markdown = measure.table(header, [_row(result) for result in results])
    measure.write_results(out, "free_benchmark", [asdict(result) for result in results], markdown)
    return markdown


def main() -> int:
    options = measure.parser(__doc__, 9, needs_reference=False).parse_args()
    return measure.run_alone("free_benchmark", lambda: benchmark(sys.executable, options.out, options.rounds))


if __name__ == "__main__":
    sys.exit(main())
