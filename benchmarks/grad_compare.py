# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How long does the comparison of two gradient records take?

100 M parameters x 4 steps, one byte an element, two sides.

    python benchmarks/grad_compare.py --reference-python PYTHON --out DIR

mindstudio-probe always draws pictures. To see what the comparison itself takes, it is also measured with its
drawing replaced by nothing. Every run is a process of its own; files are in the page cache.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import measure

_STEPS = 4
_FLIPPED = 0.02  # of the signs differ between the two sides

_LEAST_GAIN = {"csv": 50.0, "pictures": 5.0}
_MOST_MIB = 256.0

_KINDS = ("ours", "theirs", "ours-pictures", "theirs-pictures")


@dataclass
class Record:
    """What was seen of one kind of run, one entry for each."""

    seconds: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)  # of the process and its children


def make_data(directory: Path) -> None:
    """Two records of random signs, the second with some of them flipped. Run with the packages of the
    environment (numpy)."""
    import csv

    import numpy as np
    from grad_probe_worker import decoder_shapes

    random = np.random.default_rng(0)
    shapes = decoder_shapes()
    for step in range(_STEPS):
        for name, shape in shapes:
            signs = random.integers(0, 2, shape, dtype=np.int8).astype(bool)
            flipped = signs ^ (random.random(shape, dtype=np.float32) < _FLIPPED)
            for side, values in enumerate((signs, flipped)):
                folder = directory / f"run{side}" / "rank0" / f"step{step}"
                folder.mkdir(parents=True, exist_ok=True)
                np.save(folder / f"{name}.npy", values)
        for side in (0, 1):
            path = directory / f"run{side}" / "rank0" / f"grad_summary_{step}.csv"
            with path.open("w", newline="", encoding="utf-8-sig") as file:
                writer = csv.writer(file)
                writer.writerow(["param_name", "max", "min", "norm", "shape"])
                writer.writerows([name, 1.0, -1.0, 1.0, list(shape)] for name, shape in shapes)


def compare(python: str, kind: str, data: Path, out: Path) -> tuple[float, float]:
    """Seconds and peak memory of one run."""
    worker = measure.HERE / "grad_compare_worker.py"
    finished = measure.run([python, worker, data / "run0", data / "run1", out, kind])
    if finished.code != 0:
        raise RuntimeError(f"the comparison ({kind}) ended with exit code {finished.code}")
    answer = json.loads(finished.output.splitlines()[-1])
    return float(answer["seconds"]), max(float(answer["peak_mib"]), finished.peak_mib)


def check_agreement(plan: dict[str, str], data: Path, directory: Path) -> None:
    """Both tools must find the same similarities, to the last digit."""
    texts = []
    for kind in ("ours", "theirs"):
        out = directory / kind
        compare(plan[kind], kind, data, out)
        texts.append((out / "rank0" / "similarities.csv").read_bytes())
        shutil.rmtree(out)
    if texts[0] != texts[1]:
        raise RuntimeError("similarities.csv: the two tools wrote different bytes")


def to_markdown(records: dict[str, Record], data_bytes: int) -> str:
    rows = []
    for part, ours, theirs in (
        ("csv", "ours", "theirs"),
        ("pictures", "ours-pictures", "theirs-pictures"),
    ):
        gain = measure.median_ratio(records[theirs].seconds, records[ours].seconds)
        seconds = statistics.median(records[ours].seconds)
        memory = max(records[ours].peak_mib)
        limit = measure.bound(f"<= {_MOST_MIB:.0f}", holds=memory <= _MOST_MIB) if part == "csv" else ""
        rows.append(
            [
                "csv only" if part == "csv" else "csv and pictures",
                measure.duration(seconds),
                f"{data_bytes / seconds / 1e9:.1f} GB/s",
                f"{statistics.median(records[theirs].seconds):.2f} s",
                measure.against(gain, _LEAST_GAIN[part], at_most=False),
                f"{memory:.0f} MiB{limit}",
                f"{max(records[theirs].peak_mib):.0f} MiB",
            ]
        )
    whole = statistics.median(records["theirs-pictures"].seconds) / statistics.median(records["ours"].seconds)
    header = ["", "time", "read", "mindstudio-probe", "gain", "memory", "memory of mindstudio-probe"]
    return measure.table(header, rows) + (
        f"\nWithout pictures: {whole:.0f} times faster than mindstudio-probe, which always draws.\n"
        "Both tools wrote the same similarities.csv.\n"
    )


def benchmark(python: str, reference: str, out: Path, rounds: int, picture_rounds: int) -> str:
    """Checks, measures and writes grad_compare.json and grad_compare.md to `out`. Returns the Markdown."""
    plan = {"ours": python, "ours-pictures": python, "theirs": reference, "theirs-pictures": reference}
    records = {kind: Record() for kind in _KINDS}
    with tempfile.TemporaryDirectory(dir=out) as name:
        directory = Path(name)
        data = directory / "data"
        made = measure.run([reference, __file__, "--make-data", data])
        if made.code != 0:
            raise RuntimeError("the data could not be made")
        check_agreement(plan, data, directory)
        for number in range(max(rounds, picture_rounds)):
            kinds = [k for k in _KINDS if number < (picture_rounds if k.endswith("pictures") else rounds)]
            for kind in kinds if number % 2 == 0 else reversed(kinds):
                seconds, peak = compare(plan[kind], kind, data, directory / "out")
                shutil.rmtree(directory / "out")
                records[kind].seconds.append(seconds)
                records[kind].peak_mib.append(peak)
        data_bytes = sum(file.stat().st_size for file in data.rglob("*.npy"))
    markdown = to_markdown(records, data_bytes)
    measure.write_results(out, "grad_compare", {k: asdict(r) for k, r in records.items()}, markdown)
    return markdown


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter with this msprobe")
    parser.add_argument("--reference-python", help="interpreter with mindstudio-probe")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--picture-rounds", type=int, default=3)
    parser.add_argument("--make-data", type=Path, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.make_data:
        make_data(o.make_data)
        return 0
    if not o.reference_python or not o.out:
        parser.error("--reference-python and --out are needed")
    o.out.mkdir(parents=True, exist_ok=True)
    print(benchmark(o.python, o.reference_python, o.out, o.rounds, o.picture_rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
