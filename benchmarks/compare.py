# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How fast are two dumps compared, from the command line to the last file?

python benchmarks/compare.py --reference-python PYTHON --out DIR

The dumps follow a decoder: layers of 20 calls forward and backward, with one item in a hundred off by up to a
fifth; in one case all elements of all tensors. Ours and mindstudio-probe take turns.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import statistics
import struct
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import measure

_LEAST_ROWS = 500_000  # a second, statistics to csv
_LEAST_GAIN_XLSX = 30
_LEAST_GAIN_REAL = 10
_MOST_MEMORY = 1.5  # of the two dump.json
_LEAST_BANDWIDTH = 0.7  # of a plain read of the tensors

_SHAPES = ([2, 256, 512], [512, 512], [2, 256, 1376], [2, 8, 256, 64])
_OPERATORS = ("Functional.linear", "Tensor.__mul__", "Tensor.__add__", "Torch.cat", "Functional.silu")
_CALLS_OF_LAYER = 20


@dataclass(frozen=True)
class Case:
    name: str
    calls: int
    md5: bool = False
    tensors: bool = False
    all_off: bool = False
    reference: bool = True


_CASES = (
    Case("statistics", 20_000),
    Case("statistics", 100_000, reference=False),
    Case("md5", 20_000, md5=True, reference=False),
    Case("real data", 800, tensors=True),
    Case("real data, no element equal", 800, tensors=True, all_off=True, reference=False),
)


@dataclass
class Record:
    rows: int = 0
    json_mib: float = 0
    tensor_mib: float = 0
    csv: list[float] = field(default_factory=list)
    xlsx: list[float] = field(default_factory=list)
    read_by_one: list[float] = field(default_factory=list)
    read_by_all: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    peak_mib: float = 0
    their_peak_mib: float = 0


# ---- dumps


class _Writer:
    """Two dumps that differ here and there."""

    def __init__(self, folder: Path, case: Case) -> None:
        self._case = case
        self._random = random.Random(7)
        self._sides = [folder / "golden", folder / "target"]
        self._data: list[dict[str, Any]] = [{}, {}]
        self._construct: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        for side in self._sides:
            (side / "dump_tensor_data").mkdir(parents=True)

    def write(self) -> None:
        calls = [self._call(index) for index in range(self._case.calls // 2)]
        for name, module in calls:
            self._add(name, "forward", module)
        for name, module in reversed(calls):
            self._add(name, "backward", module)
        task = "tensor" if self._case.tensors else "statistics"
        for side, data in zip(self._sides, self._data):
            head = {"task": task, "level": "mix", "framework": "pytorch", "dump_data_dir": None}
            (side / "dump.json").write_text(json.dumps({**head, "data": data}, indent=1))
            (side / "construct.json").write_text(json.dumps(self._construct, indent=1))
            (side / "stack.json").write_text("{}")

    def _call(self, index: int) -> tuple[str, str]:
        operator = self._random.choice(_OPERATORS)
        count = self._counts.get(operator, 0)
        self._counts[operator] = count + 1
        return f"{operator}.{count}", f"Module.layers.{index // _CALLS_OF_LAYER}.Block"

    def _add(self, name: str, phase: str, module: str) -> None:
        record = f"{name}.{phase}"
        self._construct[record] = f"{module}.{phase}.0"
        into = "input_args" if phase == "forward" else "input"
        for data in self._data:
            data[record] = {into: [], "output": []}
            if phase == "forward":
                data[record]["input_kwargs"] = {}
        for part, kind, index in ((into, "input", 0), (into, "input", 1), ("output", "output", 0)):
            for data, entry in zip(self._data, self._tensor(f"{record}.{kind}.{index}")):
                data[record][part].append(entry)

    def _tensor(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        shape = self._random.choice(_SHAPES)
        mean, spread = self._random.gauss(0, 0.01), abs(self._random.gauss(0.1, 0.02)) + 1e-4
        values = {"Max": mean + 4 * spread, "Min": mean - 4 * spread, "Mean": mean, "Norm": spread * 500}
        golden = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape, **values}
        golden["requires_grad"] = True
        target = dict(golden)
        is_off = self._case.all_off or self._random.random() < 0.01
        if is_off:
            target.update(
                {key: value * (1 + self._random.uniform(0.001, 0.2)) for key, value in values.items()}
            )
        if self._case.md5:
            golden["md5"] = f"{self._random.getrandbits(32):08x}"
            target["md5"] = f"{self._random.getrandbits(32):08x}" if is_off else golden["md5"]
        if self._case.tensors:
            self._store(name, shape, golden, target, is_off)
        return golden, target

    def _store(
        self, name: str, shape: list[int], golden: dict[str, Any], target: dict[str, Any], is_off: bool
    ) -> None:
        """Tensors of 64 KiB to 4 MiB, as .pt files."""
        from msprobe.native import core

        rows = int(math.exp(self._random.uniform(math.log(64), math.log(4096))))
        elements = [self._random.gauss(0, 1) for _ in range(256)]
        for side, entry in zip(self._sides, (golden, target)):
            row = [value * 1.01 for value in elements] if is_off and entry is target else elements
            block = struct.pack("<256f", *row) * rows
            entry["shape"], entry["data_name"] = [rows, 256], f"{name}.pt"
            array = memoryview(block).cast("B").cast("f", [rows, 256])
            core.write_pt(side / "dump_tensor_data" / f"{name}.pt", array)


# ---- measuring


def _plain_read(folder: Path, threads: int) -> float:
    """Seconds to read all tensors from the page cache, each thread into one buffer."""
    from concurrent.futures import ThreadPoolExecutor

    files = sorted(folder.rglob("*.pt"))

    def read(share: list[Path]) -> None:
        buffer = bytearray(8 << 20)
        for path in share:
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, [files[thread::threads] for thread in range(threads)]))
    return time.perf_counter() - start


def _ours(python: str, folder: Path, table: str) -> measure.Finished:
    out = folder / "ours"
    shutil.rmtree(out, ignore_errors=True)
    words: list[Path | str] = [
        "compare",
        folder / "golden/dump.json",
        folder / "target/dump.json",
        "-o",
        out,
        "--quiet",
    ]
    done = measure.run([python, "-m", "msprobe", *words, "--format", table])
    if done.code != 1 or not list(out.glob(f"compare_result_*.{table}")):
        raise RuntimeError(f"msprobe compare: exit code {done.code}, expected 1 and a table")
    return done


def _theirs(reference: str, folder: Path) -> measure.Finished:
    out = folder / "theirs"
    shutil.rmtree(out, ignore_errors=True)
    file = folder / "compare.json"
    paths = {"npu_path": str(folder / "target/dump.json"), "bench_path": str(folder / "golden/dump.json")}
    file.write_text(json.dumps({**paths, "is_print_compare_log": False}))
    file.chmod(0o640)
    words: list[Path | str] = ["-f", "pytorch", "compare", "-i", file, "-o", out]
    done = measure.run([Path(reference).with_name("msprobe"), *words])
    if done.code != 0 or not list(out.glob("*.xlsx")):
        raise RuntimeError(f"mindstudio-probe: exit code {done.code}, expected 0 and a table")
    return done


def _measure(case: Case, python: str, reference: str, folder: Path, rounds: int) -> Record:
    shutil.rmtree(folder, ignore_errors=True)
    _Writer(folder, case).write()
    record = Record(rows=case.calls // 2 * 6)
    sides = (folder / "golden", folder / "target")
    record.json_mib = sum((side / "dump.json").stat().st_size for side in sides) / measure.MIB
    record.tensor_mib = sum(path.stat().st_size for path in folder.rglob("*.pt")) / measure.MIB
    for number in range(rounds):
        if case.tensors:
            record.read_by_one.append(_plain_read(folder, 1))
            record.read_by_all.append(_plain_read(folder, len(os.sched_getaffinity(0))))
        done = _ours(python, folder, "csv")
        record.csv.append(done.seconds)
        record.peak_mib = max(record.peak_mib, done.peak_mib)
        record.xlsx.append(_ours(python, folder, "xlsx").seconds)
        if case.reference and number == 0:  # minutes, and steady
            done = _theirs(reference, folder)
            record.theirs.append(done.seconds)
            record.their_peak_mib = done.peak_mib
    shutil.rmtree(folder)
    return record


# ---- report


def _row(case: Case, record: Record) -> list[str]:
    csv, xlsx = statistics.median(record.csv), statistics.median(record.xlsx)
    rate = f"{record.rows / csv / 1e3:.0f} k"
    if case.name == "statistics":
        rate += measure.bound(f">= {_LEAST_ROWS / 1e3:.0f} k", holds=record.rows / csv >= _LEAST_ROWS)
    theirs, gain, bandwidth = "", "", ""
    if record.theirs:
        theirs = measure.duration(record.theirs[0])
        least = _LEAST_GAIN_REAL if case.tensors else _LEAST_GAIN_XLSX
        gain = measure.against(record.theirs[0] / xlsx, least, at_most=False)
    memory = f"{record.peak_mib:.0f} MiB"
    if case.tensors:
        by_one, by_all = (
            measure.median_ratio(read, record.csv) for read in (record.read_by_one, record.read_by_all)
        )
        bandwidth = f"{measure.against(by_one, _LEAST_BANDWIDTH, at_most=False)}; {by_all:.2f}x"
    else:
        memory += f", {measure.against(record.peak_mib / record.json_mib, _MOST_MEMORY, at_most=True)}"
    size = f"{record.json_mib + record.tensor_mib:.0f} MiB"
    name = f"{case.name}, {case.calls:,} records"
    times = [measure.duration(csv), rate, measure.duration(xlsx), theirs, gain]
    return [name, f"{record.rows:,}", size, *times, bandwidth, memory]


def benchmark(python: str, reference: str, out: Path, rounds: int) -> str:
    rows, records = [], {}
    for case in _CASES:
        record = _measure(case, python, reference, out / "compare", rounds)
        records[f"{case.name} {case.calls}"] = asdict(record)
        rows.append(_row(case, record))
    header = ["", "rows", "files", "csv", "rows per second", "xlsx", "mindstudio-probe", "gain, xlsx"]
    text = measure.table([*header, "of a read by one thread; by all", "memory, of the JSON"], rows)
    measure.write_results(out, "compare", records, text)
    return text


def main() -> int:
    options = measure.parser(__doc__).parse_args()
    python, out = options.reference_python, options.out
    return measure.run_alone("compare", lambda: benchmark(sys.executable, python, out, options.rounds))


if __name__ == "__main__":
    sys.exit(main())
