# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How fast are the graphs of dumps made, and of two dumps compared, from the command line to the last file?

python benchmarks/graph.py --reference-python PYTHON --out DIR

PYTHON has release 8.3.0 of mindstudio-probe: benchmarks/reference_env.py DIR --release 8.3.0. Ours and
mindstudio-probe take turns. Their files are compared first, row by row: a time counts only for the same
result.
Ours also finds the verdict of msprobe compare; mindstudio-probe has none.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import statistics
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import graph_dump
import measure
import reference_env

_MOST_BUILD, _MOST_COMPARE, _MOST_LARGE = 4.0, 8.0, 60.0  # seconds
_MOST_LARGE_MIB = 4096.0
_LEAST_GAIN = 20
_MOST_MEMORY = 0.25  # of mindstudio-probe's
_COUNTED = 200_000  # nodes that the limits in seconds are for
_NOISE = 0.01

# What both write the same. Of the index the last digits are those of another order of operations.
_COLUMNS = (
    "id, node_order, node_type, up_node, sub_nodes, micro_step_id, matched_node_link, overflow_level, "
    "round(precision_index, 9), input_data, output_data"
)


@dataclass(frozen=True)
class Case:
    nodes: int  # of each rank
    ranks: int = 1
    reference: int = 0  # rounds of mindstudio-probe

    @property
    def name(self) -> str:
        return f"{self.nodes * self.ranks:,} nodes" + (f", {self.ranks} ranks" if self.ranks > 1 else "")


_CASES = (
    Case(10_000, reference=3),
    Case(50_000, reference=1),
    Case(200_000, reference=1),
    Case(125_000, ranks=8),
)


@dataclass
class Side:
    """What a tool needed: seconds of each round, and the most memory of all processes together."""

    seconds: list[float] = field(default_factory=list)
    peak_mib: float = 0

    def add(self, done: measure.Finished) -> None:
        self.seconds.append(done.seconds)
        self.peak_mib = max(self.peak_mib, done.peak_mib)


@dataclass
class Record:
    nodes: int = 0
    dump_mib: float = 0
    build: Side = field(default_factory=Side)
    compare: Side = field(default_factory=Side)
    their_build: Side = field(default_factory=Side)
    their_compare: Side = field(default_factory=Side)


# ---- the two tools


def _run(command: list[Path | str], out: Path, kind: str, codes: tuple[int, ...]) -> measure.Finished:
    shutil.rmtree(out, ignore_errors=True)
    # Each tool runs in its own environment: nothing may lead to the other one.
    done = measure.run(["env", "-u", "PYTHONPATH", *command])
    if done.code not in codes or not list(out.glob(f"{kind}_*.vis.db")):
        raise RuntimeError(
            f"{command[0]}: exit code {done.code}, expected {codes} and a file {kind}_*.vis.db"
        )
    return done


def _ours(python: str, folder: Path, kind: str) -> measure.Finished:
    words: list[Path | str] = [python, "-m", "msprobe", "graph", "-tp", folder / "target"]
    if kind == "compare":
        words += ["-gp", folder / "golden"]
    return _run([*words, "-o", folder / "ours", "--quiet"], folder / "ours", kind, (0, 1))


def _theirs(python: str, folder: Path, kind: str) -> measure.Finished:
    golden = f'"bench_path": "{folder / "golden"}", ' if kind == "compare" else ""
    file = folder / "compare.json"
    file.write_text(f'{{"npu_path": "{folder / "target"}", {golden}"is_print_compare_log": false}}')
    file.chmod(0o640)
    command = Path(python).with_name("msprobe")
    words: list[Path | str] = [command, "-f", "pytorch", "graph", "-i", file, "-o", folder / "theirs"]
    return _run(words, folder / "theirs", kind, (0,))


def _check_agreement(folder: Path, kind: str) -> None:
    """Raises RuntimeError unless both files say the same of all nodes."""
    files = [next((folder / side).glob(f"{kind}_*.vis.db")) for side in ("ours", "theirs")]
    with sqlite3.connect(files[0]) as connection:
        connection.execute("ATTACH ? AS theirs", (str(files[1]),))
        ours, theirs = (f"SELECT {_COLUMNS} FROM {schema}.tb_nodes" for schema in ("main", "theirs"))
        (count,) = connection.execute("SELECT count(*) FROM main.tb_nodes").fetchone()
        for one, other in ((ours, theirs), (theirs, ours)):
            query = f"SELECT count(*), min(id) FROM ({one} EXCEPT {other})"
            differing, first = connection.execute(query).fetchone()
            if differing:
                raise RuntimeError(
                    f"{files[0]} and {files[1]}: {differing} of {count} nodes differ, {first} first"
                )
    connection.close()


# ---- measuring


def _write_dumps(case: Case, folder: Path) -> int:
    nodes = 0
    for side, noise in (("golden", 0.0), ("target", _NOISE)):
        for rank in range(case.ranks):
            place = folder / side if case.ranks == 1 else folder / side / f"rank{rank}"
            nodes += graph_dump.write_rank(place, case.nodes, noise=noise, seed=10 * rank)
    return nodes // 2


def _measure(case: Case, python: str, reference: str, folder: Path, rounds: int) -> Record:
    shutil.rmtree(folder, ignore_errors=True)
    record = Record(nodes=_write_dumps(case, folder))
    record.dump_mib = sum(file.stat().st_size for file in folder.rglob("*.json")) / measure.MIB
    kinds = (("build", record.build, record.their_build), ("compare", record.compare, record.their_compare))
    for number in range(rounds):
        for kind, ours, theirs in kinds:
            ours.add(_ours(python, folder, kind))
            if number >= case.reference:
                continue
            theirs.add(_theirs(reference, folder, kind))
            if number == 0:
                _check_agreement(folder, kind)
    shutil.rmtree(folder)
    return record


# ---- report


def _limit(case: Case, kind: str) -> float | None:
    if case.ranks > 1:
        return _MOST_LARGE if kind == "compare" else None
    if case.nodes != _COUNTED:
        return None
    return _MOST_BUILD if kind == "build" else _MOST_COMPARE


def _seconds(seconds: float, limit: float | None) -> str:
    text = measure.duration(seconds)
    return text if limit is None else text + measure.bound(f"<= {limit:g} s", holds=seconds <= limit)


def _memory(case: Case, kind: str, ours: Side, theirs: Side) -> str:
    text = f"{ours.peak_mib:.0f} MiB"
    if theirs.peak_mib:
        return f"{text}, {measure.against(ours.peak_mib / theirs.peak_mib, _MOST_MEMORY, at_most=True)}"
    if case.ranks > 1 and kind == "compare":
        text += measure.bound("<= 4 GiB", holds=ours.peak_mib <= _MOST_LARGE_MIB)
    return text


def _row(case: Case, record: Record, kind: str) -> list[str]:
    ours, theirs = (
        (record.build, record.their_build) if kind == "build" else (record.compare, record.their_compare)
    )
    median = statistics.median(ours.seconds)
    their_time, gain = "", ""
    if theirs.seconds:
        their_time = measure.duration(statistics.median(theirs.seconds))
        gain = measure.against(measure.median_ratio(theirs.seconds, ours.seconds), _LEAST_GAIN, at_most=False)
    of_a_node = f"{median / record.nodes * 1e6:.0f} us"
    time = _seconds(median, _limit(case, kind))
    memory = _memory(case, kind, ours, theirs)
    their_memory = f"{theirs.peak_mib:.0f} MiB" if theirs.peak_mib else ""
    return [f"{kind}, {case.name}", time, of_a_node, their_time, gain, memory, their_memory]


def benchmark(python: str, reference: str, out: Path, rounds: int, cases: tuple[Case, ...] = _CASES) -> str:
    if not reference_env.is_ready(Path(reference).parent.parent, reference_env.GRAPH_RELEASE):
        raise RuntimeError(f"{reference}: expected release {reference_env.GRAPH_RELEASE} of mindstudio-probe")
    rows, records = [], {}
    for case in cases:
        record = _measure(case, python, reference, out / "graph", 1 if case.ranks > 1 else rounds)
        records[case.name] = asdict(record)
        rows += [_row(case, record, kind) for kind in ("build", "compare")]
    header = ["", "msprobe graph", "a node", "mindstudio-probe", "gain", "memory", "mindstudio-probe"]
    text = measure.table(header, rows)
    measure.write_results(out, "graph", records, text)
    return text


def main() -> int:
    parser = measure.parser(__doc__)
    parser.add_argument("--nodes", metavar="N", type=int, nargs="+", help="only cases of so many nodes")
    options = parser.parse_args()
    cases = tuple(
        case for case in _CASES if options.nodes is None or case.nodes * case.ranks in options.nodes
    )
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    return measure.run_alone(
        "graph",
        lambda: benchmark(sys.executable, options.reference_python, options.out, options.rounds, cases),
    )


if __name__ == "__main__":
    sys.exit(main())
