# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What does the config check cost a training, and how long does a comparison take?

    python benchmarks/config_check.py --reference-python PYTHON --out DIR

Ours and mindstudio-probe take turns, in processes of their own that hold the same model.
"""

from __future__ import annotations

import contextlib
import json
import random
import resource
import shutil
import statistics
import sys
import tempfile
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import measure

if TYPE_CHECKING:
    from collections.abc import Iterator

_RANKS, _WEIGHTS = 64, 300  # of the packs
_STEPS, _MANY_STEPS = 2, 10  # mindstudio-probe would need minutes for the latter
_DRAW_ROUNDS = 20  # of each round of the others: draws take microseconds
_MOST_DRAWS = 0.01  # of a step of 250 ms
_STEP = 0.25
_LEAST_COLLECT = 5.0
_MOST_COMPARE = 5.0  # seconds


@dataclass
class Record:
    """Seconds, one entry for each round; of draws and of "cpu" those of the processors."""

    draw_plain: list[float] = field(default_factory=list)
    draw_counted: list[float] = field(default_factory=list)
    draw_after: list[float] = field(default_factory=list)
    their_draw_plain: list[float] = field(default_factory=list)
    their_draw_counted: list[float] = field(default_factory=list)
    crc32: list[float] = field(default_factory=list)
    md5: list[float] = field(default_factory=list)
    plain_md5: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    llama: list[float] = field(default_factory=list)
    their_llama: list[float] = field(default_factory=list)
    compare: list[float] = field(default_factory=list)
    compare_cpu: list[float] = field(default_factory=list)
    their_compare: list[float] = field(default_factory=list)
    their_compare_cpu: list[float] = field(default_factory=list)
    compare_many: list[float] = field(default_factory=list)
    compare_many_cpu: list[float] = field(default_factory=list)


def measure_processes(python: str, reference: str, folder: Path, rounds: int, record: Record) -> None:
    with _workers(python, reference, folder, "equal") as (ours, theirs):
        _measure_draws(ours, theirs, rounds * _DRAW_ROUNDS, record)
        for _ in range(rounds):
            ours.ask("patch")
            record.crc32.append(ours.ask("collect", {})[1])  # its first forward call ends the counting
            record.draw_after.append(ours.ask("draw"))
            record.md5.append(ours.ask("collect", {"checksum": "md5"})[1])
            record.plain_md5.append(ours.ask("md5"))
            record.theirs.append(theirs.ask("collect", {})[1])
    with _workers(python, reference, folder, "llama") as (ours, theirs):
        for _ in range(rounds):
            record.llama.append(ours.ask("collect", {})[1])
            record.their_llama.append(theirs.ask("collect", {})[1])


@contextlib.contextmanager
def _workers(
    python: str, reference: str, folder: Path, weights: str
) -> Iterator[tuple[measure.Worker, measure.Worker]]:
    """Ours and mindstudio-probe with the same weights."""
    settings = {"folder": str(folder), "weights": weights}
    with (
        measure.Worker(python, "config_check_worker.py", settings, folder / "ours.log") as ours,
        measure.Worker(reference, "config_check_worker.py", settings, folder / "theirs.log") as theirs,
    ):
        yield ours, theirs


def _measure_draws(ours: measure.Worker, theirs: measure.Worker, rounds: int, record: Record) -> None:
    """Turns of with and without; the patches of mindstudio-probe cannot be taken back."""
    for _ in range(rounds):
        record.their_draw_plain.append(theirs.ask("draw"))
        record.draw_plain.append(ours.ask("draw"))
        ours.ask("patch")
        ours.ask("draw")  # the texts of new stacks are made, once in a training
        record.draw_counted.append(ours.ask("draw"))
        ours.ask("unpatch")
    theirs.ask("patch")
    theirs.ask("draw")
    for _ in range(rounds):
        record.their_draw_counted.append(theirs.ask("draw"))


# ---- comparing


def make_packs(folder: Path, steps: int, *, ours: bool) -> list[Path]:
    """Two packs of which some weights differ; with checksums, as this msprobe makes them, or without."""
    paths = [folder / "bench.zip", folder / "cmp.zip"]
    for side, path in enumerate(paths):
        source = random.Random(1)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("env", json.dumps({"HOME": "/root"}))
            archive.writestr("pip", "torch=2.13.0\n")
            if ours:
                archive.writestr("msprobe/pack.json", json.dumps({"format": 1, "run": "x", "number": 0}))
            for rank in range(_RANKS):
                for step in range(steps):
                    _add_step(archive, source, (step, rank), differs=side == 1 and rank % 8 == 3, ours=ours)
    return paths


def _add_step(
    archive: zipfile.ZipFile, source: random.Random, place: tuple[int, int], *, differs: bool, ours: bool
) -> None:
    step, rank = place
    weights = {f"layers.{i}.weight": _statistics(source) for i in range(_WEIGHTS)}
    if differs:
        weights["layers.7.weight"]["max"] += 1
    inputs = {"args": {"0": _statistics(source)}, "kwargs": {}}
    for name, tree in (("weights", weights), ("dataset", inputs)):
        file = "weight" if name == "weights" else name
        archive.writestr(f"{name}/step{step}/rank{rank}/{file}.json", json.dumps(tree, indent=4))
        if ours:
            tags = weights if name == "weights" else ("args.0",)
            prints = {tag: _fingerprint(source) for tag in tags}
            where = f"msprobe/fingerprints/{name}/step{step}/rank{rank}.json"
            archive.writestr(where, json.dumps(prints, indent=4))


def _fingerprint(source: random.Random) -> dict[str, Any]:
    return {"dtype": "torch.float32", "shape": [1024, 1024], "crc32": f"{source.getrandbits(32):08x}"}


def _statistics(source: random.Random) -> dict[str, float]:
    return {name: source.random() for name in ("max", "min", "mean", "norm")}


def compare(python: str, packs: list[Path], out: Path) -> tuple[float, float, dict[str, Any]]:
    """Seconds, those of the processors, and the cells of the summary and of the weights."""
    command = [python, "-m", "msprobe"] if _is_ours(python) else [Path(python).with_name("msprobe")]
    before = _processor_seconds()
    done = measure.run([*command, "-f", "pytorch", "config_check", "-c", *packs, "-o", out])
    if not (out / "result.xlsx").exists():
        raise RuntimeError(f"{python}: exit code {done.code}, no result:\n{done.output[-2000:]}")
    found = done.seconds, _processor_seconds() - before, _cells(out / "result.xlsx")
    shutil.rmtree(out)
    return found


def _processor_seconds() -> float:
    """Of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _is_ours(python: str) -> bool:
    return measure.run([python, "-c", "import msprobe.config_check"]).code == 0


def _cells(path: Path) -> dict[str, Any]:
    from python_calamine import CalamineWorkbook

    book = CalamineWorkbook.from_path(path)
    return {name: sorted(map(repr, book.get_sheet_by_name(name).to_python())) for name in book.sheet_names}


def measure_comparison(python: str, reference: str, folder: Path, rounds: int, record: Record) -> None:
    packs = make_packs(folder, _STEPS, ours=False)
    for _ in range(rounds):
        seconds, cpu, cells = compare(python, packs, folder / "out")
        record.compare.append(seconds)
        record.compare_cpu.append(cpu)
        seconds, cpu, their_cells = compare(reference, packs, folder / "out")
        record.their_compare.append(seconds)
        record.their_compare_cpu.append(cpu)
        if cells != their_cells:
            raise RuntimeError("the two tools wrote different cells")
    packs = make_packs(folder, _MANY_STEPS, ours=True)
    for _ in range(rounds):
        seconds, cpu, _ = compare(python, packs, folder / "out")
        record.compare_many.append(seconds)
        record.compare_many_cpu.append(cpu)


# ---- the report


def to_markdown(record: Record) -> str:
    draws = [
        ("1,000 draws, counted", _more(record.draw_counted, record.draw_plain)),
        ("1,000 draws after the first forward call", _more(record.draw_after, record.draw_plain)),
        ("1,000 draws, mindstudio-probe", _more(record.their_draw_counted, record.their_draw_plain)),
    ]
    rows = []
    for name, more in draws:
        share = more / _STEP
        limit = measure.bound(f"< {_MOST_DRAWS:.0%}", holds=share < _MOST_DRAWS)
        ours = "" if "mindstudio" in name else limit
        rows.append([name, measure.duration(max(more, 0.0)), f"{share:.2%}{ours}"])
    text = measure.table(["", "processor time", f"of a step of {_STEP * 1e3:.0f} ms"], rows)

    gain = measure.median_ratio(record.theirs, record.crc32)
    llama_gain = measure.median_ratio(record.their_llama, record.llama)
    bound = measure.median_ratio(record.md5, record.plain_md5)
    text += "\n" + measure.table(
        ["weights in float32, 1 GiB", "time", ""],
        [
            [
                "0.25 B parameters of a Llama, CRC-32",
                measure.duration(statistics.median(record.llama)),
                measure.against(llama_gain, _LEAST_COLLECT, at_most=False) + " than mindstudio-probe",
            ],
            [
                "0.25 B parameters of a Llama, mindstudio-probe, no checksum",
                measure.duration(statistics.median(record.their_llama)),
                "",
            ],
            [
                "256 of 4 MiB, CRC-32",
                measure.duration(statistics.median(record.crc32)),
                measure.against(gain, _LEAST_COLLECT, at_most=False) + " than mindstudio-probe",
            ],
            [
                "256 of 4 MiB, MD5",
                measure.duration(statistics.median(record.md5)),
                f"{bound:.2f} times MD5 alone on all cores",
            ],
            [
                "256 of 4 MiB, MD5 alone on all cores",
                measure.duration(statistics.median(record.plain_md5)),
                "",
            ],
            [
                "256 of 4 MiB, mindstudio-probe, no checksum",
                measure.duration(statistics.median(record.theirs)),
                "",
            ],
        ],
    )
    rows = [
        _comparison_row(f"{_STEPS} steps", record.compare, record.compare_cpu, limited=True),
        _comparison_row(
            f"{_STEPS} steps, mindstudio-probe", record.their_compare, record.their_compare_cpu, limited=False
        ),
        _comparison_row(
            f"{_MANY_STEPS} steps, with checksums", record.compare_many, record.compare_many_cpu, limited=True
        ),
    ]
    heads = [f"two packs of {_RANKS} ranks, {_WEIGHTS} weights", "time", "processor time"]
    text += "\n" + measure.table(heads, rows)
    return text + "\nBoth tools wrote the same cells.\n"


def _more(after: list[float], before: list[float]) -> float:
    return statistics.median(after) - statistics.median(before)


def _comparison_row(name: str, seconds: list[float], cpu: list[float], *, limited: bool) -> list[str]:
    time = statistics.median(seconds)
    limit = measure.bound(f"< {_MOST_COMPARE:.0f} s", holds=time < _MOST_COMPARE) if limited else ""
    return [name, f"{time:.2f} s{limit}", f"{statistics.median(cpu):.2f} s"]


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
    options = measure.parser(__doc__).parse_args()
    python, out = options.reference_python, options.out
    return measure.run_alone("config_check", lambda: benchmark(sys.executable, python, out, options.rounds))


if __name__ == "__main__":
    sys.exit(main())
