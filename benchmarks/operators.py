# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What running recorded calls again costs: run_ut next to torch's own calls, and a training step with the
online check next to task tensor.

python benchmarks/operators.py [--rounds N]

The calls are those of tests/data/accuracy; statistics and tensors. "Alone" are the same calls, forward and
backward, in both precisions, with arguments that are there already; for tensors also reading the files.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

_STEPS, _FIRST = 12, 3  # of a training; the first steps warm up
_CALLS = 200  # of a step


def run_ut_seconds(dump: Path, out: Path) -> tuple[float, int]:
    from msprobe.accuracy.run import run_ut

    begin = time.perf_counter()
    result = run_ut(dump, out, device="cpu")
    return time.perf_counter() - begin, sum(1 for _ in result.results.open(encoding="utf-8-sig")) - 1


def alone_seconds(dump: Path) -> float:
    """Of reading saved tensors, and of torch's calls in both precisions."""
    from msprobe.accuracy import checker
    from msprobe.native import Error
    from msprobe.replay.arguments import ArgumentBuilder
    from msprobe.replay.dump_file import Dump
    from msprobe.replay.execution import Execution, dtype_of_output, inputs_of, quiet

    source = Dump(str(dump))
    has_tensors = source.folder is not None
    total = 0.0
    for call in source.calls():
        function = call.function.rpartition(".")[2]
        try:
            begin = time.perf_counter()
            inputs = checker._converted(
                function, inputs_of(call, ArgumentBuilder(call.folder, "cpu", "range"))
            )
            if has_tensors:
                total += time.perf_counter() - begin
            precisions = checker._precisions(function, inputs, dtype_of_output(call))
            begin = time.perf_counter()
            with quiet():
                for precision in precisions:
                    run = Execution(call, inputs, "cpu", precision, with_gradients=call.backward is not None)
                    if inputs.gradients and inputs.gradients[0] is not None:
                        run.gradients(inputs.gradients[:1])
            total += time.perf_counter() - begin
        except (Error, RuntimeError, TypeError, ValueError):
            continue
    return total


def train(task: str, folder: str, port: int) -> None:
    """Prints the seconds of each step that was recorded."""
    import torch
    from msprobe.pytorch import PrecisionDebugger

    torch.set_num_threads(1)
    section: dict[str, Any] = {}
    if task == "online":
        section = {"online_run_ut": True, "host": "127.0.0.1", "port": port}
    path = Path(folder) / f"{task}.json"
    content = {"task": "tensor", "dump_path": f"{folder}/{task}", "level": "L1", "tensor": section}
    path.write_text(json.dumps(content))
    if task != "plain":
        PrecisionDebugger(path)
    weight = torch.randn(12, 12, requires_grad=True)
    seconds = []
    for _ in range(_STEPS):
        begin = time.perf_counter()
        if task != "plain":
            PrecisionDebugger.start()
        x = torch.ones(12, 12)
        for _ in range(_CALLS // 4):
            x = torch.tanh(torch.matmul(x, weight)) * 0.5 + 1
        x.sum().backward()  # type: ignore[no-untyped-call]
        if task != "plain":
            PrecisionDebugger.stop()
            PrecisionDebugger.step()
        taken = time.perf_counter() - begin
        if task != "online" or is_recorded():
            seconds.append(taken)
        time.sleep(0.5)  # what a training does besides
    print(json.dumps(seconds))


def is_recorded() -> bool:
    """Whether the step before was recorded: one that was left out is cheap, and does not count."""
    from msprobe.pytorch import PrecisionDebugger

    spool = PrecisionDebugger._get("step")._feature._online  # type: ignore[attr-defined]
    before, is_recorded.count = is_recorded.count, spool._recorded  # type: ignore[attr-defined]
    return bool(spool._recorded > before)


is_recorded.count = 0  # type: ignore[attr-defined]


def step_seconds(task: str, folder: Path, port: int = 0) -> float:
    words = [sys.executable, __file__, "--train", task, str(folder), str(port)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    if "left out" in done.stderr:
        print(f"  {task}: {done.stderr.strip()}")
    seconds: list[float] = json.loads(done.stdout)
    return statistics.median(seconds[_FIRST:])


def online_seconds(folder: Path) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "checker.json"
    config.write_text(json.dumps({"run_ut": {"is_online": True, "host": "127.0.0.1", "port": port}}))
    words = [sys.executable, "-m", "msprobe", "run_ut", "-config", str(config), "-o", str(folder / "out")]
    checker = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert checker.stderr is not None
    checker.stderr.readline()  # it waits
    try:
        return step_seconds("online", folder, port)
    finally:
        checker.wait(120)
        checker.stderr.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train", nargs=3)
    asked = parser.parse_args()
    if asked.train:
        task, folder, port = asked.train
        return train(task, folder, int(port))
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(ROOT / "tests/data/accuracy/samples.tar.xz") as archive:
            archive.extractall(folder)
        for kind in ("statistics", "tensor"):
            dump = folder / f"dump_{kind}/dump.json"
            run_ut_seconds(dump, folder / "warm")
            rates, shares = [], []
            for i in range(asked.rounds):
                seconds, calls = run_ut_seconds(dump, folder / f"{kind}{i}")
                rates.append(calls / seconds)
                shares.append(alone_seconds(dump) / seconds)
            print(f"run_ut, {kind}: {statistics.median(rates):.0f} calls/s, {calls} calls; alone/run_ut "
                  f"{statistics.median(shares):.2f}")  # fmt: skip
        ratios, plain = [], []
        for i in range(max(1, asked.rounds // 2)):
            inside = folder / f"train{i}"
            os.mkdir(inside)
            tensor, online = step_seconds("tensor", inside), online_seconds(inside)
            ratios.append(online / tensor)
            plain.append((step_seconds("plain", inside), tensor, online))
        print(f"step, ms (plain, tensor, online): {[tuple(round(1e3 * s, 1) for s in one) for one in plain]}")
        print(f"online / tensor: {statistics.median(ratios):.2f}")
    return None


if __name__ == "__main__":
    main()
