# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What does the config check cost a training, and how long does a comparison take?

    python benchmarks/config_check.py --reference-python PYTHON --out DIR

Ours and the existing tool take turns, in processes of their own that hold the same model.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import measure

_MIB = 1024  # of weights
_RANKS, _STEPS, _WEIGHTS = 64, 2, 300  # of the packs
_MOST_DRAWS = 0.01  # of a step of 250 ms
_STEP = 0.25
_LEAST_COLLECT = 5.0
_MOST_COMPARE = 5.0  # seconds


@dataclass
class Record:
    """Seconds, one entry for each round."""

    draw_plain: list[float] = field(default_factory=list)
    draw_counted: list[float] = field(default_factory=list)
    draw_after: list[float] = field(default_factory=list)
    their_draw_plain: list[float] = field(default_factory=list)
    their_draw_counted: list[float] = field(default_factory=list)
    crc32: list[float] = field(default_factory=list)
    md5: list[float] = field(default_factory=list)
    plain_md5: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    compare: list[float] = field(default_factory=list)
    their_compare: list[float] = field(default_factory=list)


def measure_processes(python: str, reference: str, folder: Path, rounds: int, record: Record) -> None:
    settings = {"folder": str(folder), "mib": _MIB}
    with (
        measure.Worker(python, "config_check_worker.py", settings, folder / "ours.log") as ours,
        measure.Worker(reference, "config_check_worker.py", settings, folder / "theirs.log") as theirs,
    ):
        for _ in range(rounds):
            record.draw_plain.append(_best(ours))
            record.their_draw_plain.append(_best(theirs))
        theirs.ask("patch")
        for _ in range(rounds):
            ours.ask("patch")
            record.draw_counted.append(_best(ours))
            record.their_draw_counted.append(_best(theirs))
            record.crc32.append(ours.ask("collect", {})[1])  # its first forward call ends the counting
            record.draw_after.append(_best(ours))
            record.md5.append(ours.ask("collect", {"checksum": "md5"})[1])
            record.plain_md5.append(ours.ask("md5"))
            record.theirs.append(theirs.ask("collect", {})[1])


def _best(worker: measure.Worker) -> float:
    """Of several steps: draws take microseconds, and anything may come between them."""
    return float(min(worker.ask("draw") for _ in range(10)))


# ---- comparing


def make_packs(folder: Path) -> list[Path]:
    """Two packs as the existing tool makes them, with some weights that differ."""
    paths = [folder / "bench.zip", folder / "cmp.zip"]
    for side, path in enumerate(paths):
        source = random.Random(1)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("env", json.dumps({"HOME": "/root"}))
            archive.writestr("pip", "torch=2.13.0\n")
            for rank in range(_RANKS):
                for step in range(_STEPS):
                    weights = {f"layers.{i}.weight": _statistics(source) for i in range(_WEIGHTS)}
                    if side and rank % 8 == 3:
                        weights["layers.7.weight"]["max"] += 1
                    inputs = {"args": {"0": _statistics(source)}, "kwargs": {}}
                    for name, tree in (("weights", weights), ("dataset", inputs)):
                        file = "weight" if name == "weights" else name
                        text = json.dumps(tree, indent=4)
                        archive.writestr(f"{name}/step{step}/rank{rank}/{file}.json", text)
    return paths


def _statistics(source: random.Random) -> dict[str, float]:
    return {name: source.random() for name in ("max", "min", "mean", "norm")}


def compare(python: str, packs: list[Path], out: Path) -> tuple[float, dict[str, Any]]:
    """Seconds, and the cells of the summary and of the weights."""
    command = [python, "-m", "msprobe"] if _is_ours(python) else [Path(python).with_name("msprobe")]
    done = measure.run([*command, "-f", "pytorch", "config_check", "-c", *packs, "-o", out])
    if not (out / "result.xlsx").exists():
        raise RuntimeError(f"{python}: exit code {done.code}, no result:\n{done.output[-2000:]}")
    return done.seconds, _cells(out / "result.xlsx")


def _is_ours(python: str) -> bool:
    return measure.run([python, "-c", "import msprobe.config_check"]).code == 0


def _cells(path: Path) -> dict[str, Any]:
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_path(path)
    return {name: sorted(map(repr, book.get_sheet_by_name(name).to_python())) for name in book.sheet_names}


def measure_comparison(python: str, reference: str, folder: Path, rounds: int, record: Record) -> None:
    packs = make_packs(folder)
    for _ in range(rounds):
        cells = []
        for interpreter, seconds in ((python, record.compare), (reference, record.their_compare)):
            took, found = compare(interpreter, packs, folder / "out")
            seconds.append(took)
            cells.append(found)
            shutil.rmtree(folder / "out")
        if cells[0] != cells[1]:
            raise RuntimeError("the two tools wrote different cells")


# ---- the report


def to_markdown(record: Record) -> str:
    draws = [
        ("1,000 draws, counted", record.draw_counted, record.draw_plain),
        ("1,000 draws after the first forward call", record.draw_after, record.draw_plain),
        ("1,000 draws, existing tool", record.their_draw_counted, record.their_draw_plain),
    ]
    rows = []
    for name, after, before in draws:
        more = statistics.median(after) - statistics.median(before)
        share = more / _STEP
        verdict = "" if "existing" in name else ": met" if share < _MOST_DRAWS else ": missed"
        rows.append([name, measure.duration(max(more, 0.0)), f"{share:.2%} (< {_MOST_DRAWS:.0%}{verdict})"])
    text = measure.table(["", "more than without", f"of a step of {_STEP * 1e3:.0f} ms"], rows)

    gain = measure.median_ratio(record.theirs, record.crc32)
    bound = measure.median_ratio(record.md5, record.plain_md5)
    text += "\n" + measure.table(
        [f"weights of {_MIB / 1024:.0f} GiB", "time", ""],
        [
            [
                "CRC-32, the default",
                measure.duration(statistics.median(record.crc32)),
                measure.against(gain, _LEAST_COLLECT, at_most=False) + " than the existing tool",
            ],
            [
                "MD5",
                measure.duration(statistics.median(record.md5)),
                f"{bound:.2f} times MD5 alone on all cores",
            ],
            ["MD5 alone on all cores", measure.duration(statistics.median(record.plain_md5)), ""],
            ["existing tool, no checksum", measure.duration(statistics.median(record.theirs)), ""],
        ],
    )
    seconds = statistics.median(record.compare)
    met = "met" if seconds < _MOST_COMPARE else "missed"
    text += "\n" + measure.table(
        [f"two packs of {_RANKS} ranks, {_STEPS} steps, {_WEIGHTS} weights", "time"],
        [
            [
                "ours",
                f"{seconds:.2f} s (< {_MOST_COMPARE:.0f} s: {met})",
            ],
            ["existing tool", f"{statistics.median(record.their_compare):.2f} s"],
        ],
    )
    return text + "\nBoth tools wrote the same cells.\n"


def benchmark(python: str, reference: str, out: Path, rounds: int) -> str:
    """Measures and writes config_check.json and config_check.md to `out`. Returns the Markdown."""
    record = Record()
    with tempfile.TemporaryDirectory(dir=out) as name:
        measure_processes(python, reference, Path(name), rounds, record)
        measure_comparison(python, reference, Path(name), max(1, rounds // 2), record)
    markdown = to_markdown(record)
    measure.write_results(out, "config_check", asdict(record), markdown)
    return markdown


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter with this msprobe")
    parser.add_argument("--reference-python", required=True, help="interpreter with the existing tool")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    print(benchmark(o.python, o.reference_python, o.out, o.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
