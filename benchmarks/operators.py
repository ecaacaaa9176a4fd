# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What does it cost to run recorded calls again, and to have them checked while a training runs?

    python benchmarks/operators.py [--reference-python PYTHON] --out DIR

The calls are those of tests/data/accuracy: 39, of some 12 elements, forward and backward. "Alone" are the
same calls in both precisions with arguments that are there; for saved tensors also reading the files. The
training is the operator-bound decoder of dump.py; a checker on this machine takes its steps over TCP.
"""

from __future__ import annotations

import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import measure
from measure import Worker

_DATA = measure.HERE.parent / "tests/data/accuracy"
_CALLS = 39
_BURST = 4  # steps in a row: as many as may wait for the courier
_MIB_ELEMENTS = measure.MIB // 4
_DUMPS = ((500, 12), (5_000, 12), (8, 8 * _MIB_ELEMENTS), (32, 8 * _MIB_ELEMENTS))  # calls, elements


def _rates(worker: Worker, reference: str | None, folder: Path, rounds: int) -> str:
    with tarfile.open(_DATA / "samples.tar.xz") as archive:
        archive.extractall(folder)
    rows = []
    for kind in ("statistics", "tensor"):
        dump = str(folder / f"dump_{kind}/dump.json")
        for job in ("run_ut", "check"):
            worker.ask(job, dump, str(folder / f"warm_{job}_{kind}"))
            seconds, shares = [], []
            for i in range(rounds):
                seconds.append(worker.ask(job, dump, str(folder / f"{job}_{kind}_{i}")))
                shares.append(worker.ask("alone", dump) / seconds[-1])
            rate = _CALLS / statistics.median(seconds)
            share, theirs = "", ""
            if job == "run_ut":
                share = f"{statistics.median(shares):.2f}"
                theirs = (
                    f"{_reference_rate(reference, dump, folder / f'reference_{kind}'):.1f}"
                    if reference
                    else ""
                )
            rows.append([f"`{job}`", kind, f"{rate:.0f}", share, theirs])
    header = [
        "command",
        "task of the dump",
        "calls a second of the processor",
        "of it alone",
        "mindstudio-probe",
    ]
    return measure.table(header, rows)


def _reference_rate(python: str, dump: str, out: Path) -> float:
    """Of mindstudio-probe, whose device is replaced by the CPU; without the time that it takes to start."""
    out.mkdir()
    words = [python, str(_DATA / "make_samples.py"), str(out), "run_ut"]
    start = _processor_seconds([*words, "-h"])
    seconds = _processor_seconds([*words, "-api_info", dump, "-o", str(out)])
    if not list(out.glob("accuracy_checking_result_*.csv")):
        raise RuntimeError("mindstudio-probe wrote no result")
    return _CALLS / (seconds - start)


def _processor_seconds(words: list[str]) -> float:
    """Of a command. It has one thread, as ours."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)  # it may have our msprobe
    subprocess.run(words, env=environment, check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _memory(python: str, folder: Path) -> str:
    """Each figure in a process of its own, which has run a few calls before."""
    rows = []
    for calls, elements in _DUMPS:
        cells = []
        for job in ("run_ut", "check"):
            inside = folder / f"{job}_{calls}_{elements}"
            with Worker(python, "operators_worker.py", {}, folder / "memory.txt") as worker:
                warm = worker.ask("make_dump", str(inside / "warm"), 8, 12)
                worker.ask(job, warm, str(inside / "warm_out"))
                dump = worker.ask("make_dump", str(inside / "dump"), calls, elements)
                cells.append(f"{worker.ask('peak_mib', job, dump, str(inside / 'out')):.0f} MiB")
        size = elements * 4
        largest = f"{size / measure.MIB:.0f} MiB" if size >= measure.MIB else f"{size} bytes"
        rows.append([f"{calls:,}", largest, *cells])
    return measure.table(["calls", "a tensor", "`run_ut`", "`check`"], rows)


def _online(folder: Path, rounds: int) -> str:
    """Steps in a row, as many as may wait; then everything is delivered before the next ones."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = folder / "checker.json"
    path.write_text(json.dumps({"run_ut": {"is_online": True, "host": "127.0.0.1", "port": port}}))
    words = [sys.executable, "-m", "msprobe", "run_ut", "-config", str(path), "-o", str(folder / "out")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # as the training
    checker = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert checker.stderr is not None
    checker.stderr.readline()  # it waits for trainings
    tensor, online = (
        _training(folder / name, section)
        for name, section in (
            ("tensor", {}),
            ("online", {"online_run_ut": True, "host": "127.0.0.1", "port": port}),
        )
    )
    plain_seconds, tensor_seconds, online_seconds = [], [], []
    try:
        for i in range(rounds + 1):
            turns = [tensor, online]
            random.Random(i).shuffle(turns)
            seconds = {}
            for turn in turns:
                seconds[turn] = statistics.median(turn.ask("steps", _BURST))
                _wait_for_courier(folder / "online/dump")
            if i > 0:  # the first round warms up
                plain_seconds.append(statistics.median(online.ask("plain_steps", _BURST)))
                tensor_seconds.append(seconds[tensor])
                online_seconds.append(seconds[online])
    finally:
        tensor.close()
        online.close()
        checker.wait(300)
        checker.stderr.close()
    ratio = measure.median_ratio(online_seconds, tensor_seconds)
    row = [measure.duration(statistics.median(s)) for s in (plain_seconds, tensor_seconds, online_seconds)]
    row.append(f"{ratio:.2f}x")
    return measure.table(["plain step", "task tensor", "online", "online / tensor"], [row])


def _training(folder: Path, section: dict[str, object]) -> Worker:
    folder.mkdir()
    config = {"task": "tensor", "level": "L1", "rank": [], "step": [], "tensor": section}
    settings = {"size": "operator", "config": config, "directory": str(folder)}
    return Worker(sys.executable, "dump_worker.py", settings, folder / "log.txt")


def _wait_for_courier(dump: Path) -> None:
    """Until nothing waits for it."""
    while any(dump.glob("online_check_*/step*")):
        time.sleep(0.05)


def benchmark(python: str, reference: str | None, out: Path, rounds: int) -> str:
    """The tables, in Markdown."""
    with tempfile.TemporaryDirectory(dir=out) as name:
        folder = Path(name)
        with Worker(python, "operators_worker.py", {}, folder / "log.txt") as worker:
            tables = [_rates(worker, reference, folder, rounds)]
        tables += [_memory(python, folder), _online(folder, (rounds + 1) // 2)]
    markdown = "\n".join(tables)
    measure.write_results(out, "operators", tables, markdown)
    return markdown


def main() -> int:
    options = measure.parser(__doc__, 9, needs_reference=False).parse_args()
    python, out = options.reference_python, options.out
    return measure.run_alone("operators", lambda: benchmark(sys.executable, python, out, options.rounds))


if __name__ == "__main__":
    sys.exit(main())
