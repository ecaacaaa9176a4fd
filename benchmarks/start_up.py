# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How long until `import msprobe` and short command lines are done?

python benchmarks/start_up.py --reference-python PYTHON --out DIR
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import measure

_MOST_SECONDS = 0.1
_HEAVY = ("torch", "matplotlib", "pandas", "numpy")


@dataclass(frozen=True)
class Case:
    name: str
    ours: tuple[str, ...] | None  # arguments of the command line; None: an import
    theirs: tuple[str, ...] | None
    code: int  # exit code expected of ours


_IMPORT = "import msprobe"
_CASES = (
    Case(_IMPORT, None, None, 0),
    Case("msprobe --help", ("--help",), ("--help",), 0),
    Case("msprobe (nothing)", (), (), 2),
    Case("msprobe with an unknown command", ("frobnicate",), ("frobnicate",), 2),
    Case("msprobe with an unknown option", ("--frobnicate",), ("--frobnicate",), 2),
    Case("help of a command", ("grad_compare", "--help"), ("-f", "pytorch", "compare", "--help"), 0),
    Case("a command without its arguments", ("grad_compare",), ("-f", "pytorch", "compare"), 2),
    Case(
        "a command with a path that is not there",
        ("grad_compare", "absent/a", "absent/b", "-o", "absent/out"),
        ("-f", "pytorch", "compare", "-i", "absent.json", "-o", "absent"),
        2,
    ),
)


@dataclass
class Record:
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    interpreter: list[float] = field(default_factory=list)  # python -c pass


def _seconds(python: str, arguments: tuple[str, ...] | None, code: int | None, directory: Path) -> float:
    if arguments is None:
        command = [python, "-c", _IMPORT]
    else:
        command = [str(Path(python).parent / "msprobe"), *arguments]
    import time

    start = time.perf_counter()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=directory)
    seconds = time.perf_counter() - start
    if code is not None and done.returncode != code:
        raise RuntimeError(
            f"{command[1:]}: exit code {done.returncode}, expected {code}: {done.stderr.decode()}"
        )
    return seconds


def check_imports(python: str) -> None:
    """`import msprobe` must leave the heavy packages alone."""
    code = f"{_IMPORT}, sys; print(*[m for m in {_HEAVY!r} if m in sys.modules])"
    found = subprocess.run([python, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    if found:
        raise RuntimeError(f"import msprobe imports {', '.join(found)}")


def to_markdown(records: dict[str, Record]) -> str:
    rows = []
    for name, record in records.items():
        ours, theirs = statistics.median(record.ours), statistics.median(record.theirs)
        bare = statistics.median(record.interpreter)
        bound = measure.bound("< 100 ms", holds=ours < _MOST_SECONDS)
        rows.append(
            [
                name,
                f"{measure.duration(ours)}{bound}",
                measure.duration(bare),
                f"{theirs:.2f} s",
                f"{theirs / ours:.0f}x",
            ]
        )
    return measure.table(["", "time", "of it the bare interpreter", "mindstudio-probe", "gain"], rows)


def benchmark(python: str, reference: str, out: Path, rounds: int, reference_rounds: int) -> str:
    """Checks, measures and writes start_up.json and start_up.md to `out`. Returns the Markdown."""
    check_imports(python)
    records = {case.name: Record() for case in _CASES}
    for number in range(rounds + 1):
        for case in _CASES:
            record = records[case.name]
            times = [
                (record.ours, _seconds(python, case.ours, case.code, out)),
                (record.interpreter, _bare(python)),
            ]
            if number <= reference_rounds:
                times.append((record.theirs, _seconds(reference, case.theirs, None, out)))
            if number > 0:  # the first round warms the page cache and the byte code
                for series, seconds in times:
                    series.append(seconds)
    markdown = to_markdown(records)
    measure.write_results(out, "start_up", {k: asdict(r) for k, r in records.items()}, markdown)
    return markdown


def _bare(python: str) -> float:
    import time

    start = time.perf_counter()
    subprocess.run([python, "-c", "pass"], check=True)
    return time.perf_counter() - start


def main() -> int:
    parser = measure.parser(__doc__, 15)
    parser.add_argument("--reference-rounds", type=int, default=3)
    o = parser.parse_args()
    rounds = o.rounds, o.reference_rounds
    return measure.run_alone(
        "start_up", lambda: benchmark(sys.executable, o.reference_python, o.out, *rounds)
    )


if __name__ == "__main__":
    sys.exit(main())
