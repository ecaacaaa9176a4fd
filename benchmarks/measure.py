# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How the benchmarks measure and report. Standard library only: both environments import it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HERE = Path(__file__).resolve().parent
MIB = 1024 * 1024


def median_ratio(dividends: Sequence[float], divisors: Sequence[float]) -> float:
    """The median of the ratios of one round each.

    A machine that is slower for a while slows both numbers of a round, so this is steadier than the ratio of
    two medians.
    """
    return statistics.median(a / b for a, b in zip(dividends, divisors))


# ------------------------------------------------------------------------------------------------- processes


class Worker:
    """A process that answers requests, one JSON line each: see serve() in the worker scripts.

    It keeps its model and data between requests, so that the driver can measure several workers in turns.
    What it prints goes nowhere: mindstudio-probe talks on stdout.
    """

    def __init__(self, python: Path | str, script: str, settings: dict[str, Any], log: Path) -> None:
        requests_read, self._requests = os.pipe()
        self._answers, answers_write = os.pipe()
        self._log = log
        environment = dict(
            os.environ, PYTHONPATH=os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        )
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [
                    str(python),
                    str(HERE / script),
                    json.dumps(settings),
                    str(requests_read),
                    str(answers_write),
                ],
                pass_fds=(requests_read, answers_write),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        os.close(requests_read)
        os.close(answers_write)
        self._lines = os.fdopen(self._answers)
        self.ask("ready")

    def ask(self, request: str, *arguments: Any) -> Any:
        os.write(self._requests, (json.dumps([request, *arguments]) + "\n").encode())
        line = self._lines.readline()
        if not line:
            self._process.wait()
            tail = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"a worker ended while it was asked for {request!r}:\n{tail}")
        return json.loads(line)

    def close(self) -> None:
        os.close(self._requests)
        self._process.wait()
        self._lines.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(requests: int, answers: int, handlers: dict[str, Any]) -> None:
    """The other end of a Worker."""
    with os.fdopen(requests) as lines:
        for line in lines:
            name, *arguments = json.loads(line)
            answer = True if name == "ready" else handlers[name](*arguments)
            os.write(answers, (json.dumps(answer) + "\n").encode())


@dataclass(frozen=True)
class Finished:
    seconds: float
    code: int
    peak_mib: float  # of the process and its children together
    output: str


def run(command: Sequence[Path | str], *, stdin: int | None = None) -> Finished:
    """Runs a command to its end and watches the memory of its process tree."""
    peak = 0.0
    start = time.perf_counter()
    with subprocess.Popen(
        [str(word) for word in command],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        while True:
            try:
                output, _ = process.communicate(timeout=0.02)
                break
            except subprocess.TimeoutExpired:
                peak = max(peak, _tree_mib(process.pid))
    return Finished(time.perf_counter() - start, process.returncode, peak, output)


def _tree_mib(pid: int) -> float:
    """Memory of a process and its descendants; pages that several of them share are counted once (PSS)."""
    total, waiting = 0, [pid]
    while waiting:
        process = Path("/proc") / str(waiting.pop())
        try:
            for line in (process / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
            for task in (process / "task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue  # it has ended meanwhile
    return total / 1024


def memory_mib(field: str) -> float:
    """A figure of this process: VmRSS (now) or VmHWM (the peak since reset_peak())."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/self/status has no field {field}")


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


# ------------------------------------------------------------------------------------------------- reports


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.01 else f"{seconds * 1e3:.1f} ms"


def bound(text: str, *, holds: bool) -> str:
    """What is shown behind a number: the bound that a release should hold, with a star when it does not."""
    return f" ({text})" if holds else f" ({text})*"


def against(value: float, target: float, *, at_most: bool) -> str:
    """A ratio and its bound."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    holds = value <= target if at_most else value >= target
    return f"{value:.{digits}f}x" + bound(f"{'<=' if at_most else '>='} {target:g}", holds=holds)


def machine() -> str:
    """What was measured on, in one line, without names."""
    model, flags = platform.machine(), set[str]()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            model = value.strip()
        elif key.strip() == "flags":
            flags = set(value.split())
    level = next((name for flag, name in _LEVELS if flag in flags), "no x86 vector flags")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{model}, {len(os.sched_getaffinity(0))} cores, {level}, {memory:.0f} GiB memory, "
        f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"
    )


_LEVELS = (("avx512bw", "AVX-512"), ("avx2", "AVX2"), ("sse4_2", "SSE4.2"))


def write_results(directory: Path, name: str, record: Any, markdown: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    (directory / f"{name}.md").write_text(markdown)


def parser(document: str | None, rounds: int = 5, *, needs_reference: bool = True) -> argparse.ArgumentParser:
    """Of a benchmark that is run alone, beside mindstudio-probe."""
    made = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = made.add_argument
    add("--reference-python", metavar="PYTHON", required=needs_reference, help="that of mindstudio-probe")
    add("--out", metavar="DIR", type=_folder, required=True)
    add("--rounds", type=int, default=rounds)
    return made


def _folder(path: str) -> Path:
    folder = Path(path).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_alone(name: str, benchmark: Callable[[], str]) -> int:
    """Prints what `benchmark` returns, or why it could not. Returns the exit code."""
    try:
        print(benchmark())
    except (OSError, RuntimeError, ValueError, subprocess.CalledProcessError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0
