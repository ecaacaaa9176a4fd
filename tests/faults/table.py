# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How well the verdict judges pairs of runs: one table over all faults and healthy runs, in every
precision, with and without rounding noise, of every task, with and without `diagnosis.json`.

    python tests/faults/table.py CACHE -o results.json                 record what is missing, ask, judge
    python tests/faults/table.py CACHE -o results.json --page FILE.md  and write the page
    python tests/faults/table.py --diff before.json after.json         which cells changed

A column is `{precision}/{quiet or noise}/{task}/{diagnosis or bare}`. The msprobe that is asked is that of
the interpreter. Recordings stay in CACHE; answers that are in the results already are not asked for again,
unless msprobe is another one by now.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from asking import Question  # noqa: E402
from commit import this_commit  # noqa: E402
from judging import FAULT_OUTCOMES, HEALTHY_OUTCOMES, NOTHING, SAME, Answer  # noqa: E402
from run import Case  # noqa: E402

PRECISIONS = ("float32", "autocast", "bfloat16", "float16")
MODES = ("quiet", "noise")
TASKS = ("statistics", "md5", "tensor")
KINDS = ("diagnosis", "bare")

# Each model, area and trap once: some minutes for all columns of statistics.
SAMPLE = """
    token weight_at_start layer_norm_eps residual_missing softmax_kernel gelu_backward gradient_scaled
    cell_weight rank_reduction max_norm state_reset learning_rate images_scaled kernel_beside_fused
    again_transformer fused_attention other_convolution double_softmax
""".split()  # noqa: SIM905

Cell = dict[str, Any]
Cells = dict[str, dict[str, Cell]]
"""Column: name of the fault or healthy run: what came of it."""


# ---- what there is to do


def column(case: Case, task: str, kind: str) -> str:
    return f"{case.precision}/{case.mode}/{task}/{kind}"


def wanted_columns(patterns: Iterable[str]) -> list[str]:
    every = [f"{p}/{m}/{t}/{k}" for p in PRECISIONS for m in MODES for t in TASKS for k in KINDS]
    found = list(patterns)
    return [name for name in every if not found or any(fnmatch.fnmatch(name, one) for one in found)]


def tasks_of(case: Case, columns: Iterable[str]) -> list[str]:
    """The dumps of this case that these columns need. Those with checksums tell what there is to be found:
    of a fault, what it is without noise.
    """
    from truth import is_read

    found = {name.split("/")[2] for name in columns if name.startswith(f"{case.precision}/")}
    found = set() if case.mode == "noise2" else found
    return [task for task in TASKS if task in found or (task == "md5" and is_read(case))]


# ---- the stages


def record_all(cache: Path, cases: list[Case], columns: list[str], workers: int) -> dict[str, str]:
    """Records what is missing. Folder of a case: why it cannot be recorded."""
    from recordings import is_recorded, record

    jobs = [(case, task) for case in cases for task in tasks_of(case, columns)]
    jobs = [job for job in jobs if not is_recorded(cache, *job)]
    progress = Progress("recorded", len(jobs))
    faults: dict[str, str] = {}

    def one(case: Case, task: str) -> None:
        try:
            record(cache, case, task)
        except RuntimeError as fault:
            faults[f"{case.precision}/{case.folder}/{task}"] = str(fault)[-1000:]
        progress.one()

    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(one, *job) for job in jobs]:
            future.result()
    return faults


def ask_all(cache: Path, jobs: list[tuple[Case, list[str]]], results: Results, workers: int) -> None:
    """Asks, and measures what there is to be found."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        asked = {pool.submit(ask_case, cache, case, columns): case for case, columns in jobs}
        progress = Progress("asked", len(jobs))
        for future in as_completed(asked):
            results.add(asked[future].name, future.result())
            progress.one()


def ask_case(cache: Path, case: Case, columns: list[str]) -> dict[str, Cell]:
    """The answers to one fault or healthy run."""
    from truth import truths

    truths(cache, case)  # measured here, where other processes do the same
    return {
        name: {**question(cache, case, name).answers()[0].as_json(), "recording": recording_of(case)}
        for name in columns
    }


def question(cache: Path, case: Case, column: str) -> Question:
    from recordings import dump_of, golden_of

    *_, task, kind = column.split("/")
    golden, target = dump_of(cache, golden_of(case), task), dump_of(cache, case, task)

    def outcome(answer: Answer) -> str:
        cells = {column: {case.name: answer.as_json()}}
        judge(cache, cells)
        return str(cells[column][case.name]["outcome"])

    return Question(f"plants/{column}/{case.name}", golden, target, outcome, kind == "bare")


def recording_of(case: Case) -> str:
    """What was asked about: an answer to another recording is none."""
    from recordings import fingerprint

    return fingerprint(case)[:8]


def judge(cache: Path, cells: Cells) -> None:
    """Adds to each answer what it is worth."""
    from catalogue import BY_NAME, Fault
    from truth import truths

    by_name: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name, items in cells.items():
        precision, mode, task, kind = name.split("/")
        for case_name, cell in items.items():
            key = (precision, mode, case_name)
            case = case_of(*key)
            if key not in by_name:
                by_name[key] = truths(cache, case)
            truth = by_name[key][f"{task}/{kind}"]
            is_fault = isinstance(BY_NAME[case_name], Fault)
            cell.update(_judged(case, Answer.of_json(cell), truth, is_fault=is_fault))


def case_of(precision: str, mode: str, name: str) -> Case:
    from catalogue import BY_NAME
    from recordings import level_of
    from training import RECIPES

    item = BY_NAME[name]
    return Case(mode, name, item.model, level_of(item), RECIPES[item.model].ranks, precision)


def _judged(case: Case, answer: Answer, truth: Any, *, is_fault: bool) -> Cell:
    from truth import expectation

    expected = expectation(case, truth) if is_fault else None
    cell: Cell = {
        "outcome": answer.outcome(expected or NOTHING if is_fault else None),
        "first": answer.first,
        "beyond": truth.is_beyond,
        "differs": case.mode == "noise" or (truth.first is not None and truth.most > 0),
    }
    if is_fault:
        cell["counts"] = _counts(truth, expected, case.mode)
    return cell


def _counts(truth: Any, expected: Any, mode: str) -> str:
    """ "yes", or why the culprit is not asked for."""
    if truth.first is None:
        return "no trace"  # in what this column records
    if expected is None:
        return "elsewhere"  # the files differ first at another step or rank
    return "yes" if truth.is_demanded(mode) else "small"  # another device does as much


# ---- results


class Results:
    """The cells, in a file that is written now and then."""

    def __init__(self, path: Path, cache: Path, *, again: bool) -> None:
        self.path = path
        self._cache = cache
        self.cells: Cells = {}
        self.faults: dict[str, str] = {}
        self.identity = identity()
        self._written = time.monotonic()
        if path.exists() and not again:
            content = json.loads(path.read_text())
            if content["msprobe"]["sha256"] == self.identity["sha256"]:
                self.cells = content["cells"]

    def add(self, name: str, cells: dict[str, Cell]) -> None:
        for key, cell in cells.items():
            self.cells.setdefault(key, {})[name] = cell
        if time.monotonic() - self._written > 60:
            self._write({})

    def has(self, column: str, case: Case) -> bool:
        cell = self.cells.get(column, {}).get(case.name, {})
        return bool(cell.get("recording") == recording_of(case))

    def write(self) -> None:
        """Everything, judged."""
        judge(self._cache, self.cells)
        self._write({key: summary(cells) for key, cells in in_order(self.cells)})

    def _write(self, summaries: dict[str, Any]) -> None:
        from catalogue import BY_NAME

        self._written = time.monotonic()
        content = {
            "format": 1,
            "msprobe": self.identity,
            "summary": summaries,
            "not_recorded": self.faults,
            "expected": {name: _expected(item) for name, item in BY_NAME.items()},
            "cells": dict(in_order(self.cells)),
        }
        text = json.dumps(content, indent=0)
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        temporary.write_text(text + "\n")
        temporary.replace(self.path)


def in_order(cells: Cells) -> list[tuple[str, dict[str, Cell]]]:
    return [(name, cells[name]) for name in wanted_columns(()) if name in cells]


def _expected(item: Any) -> str:
    from catalogue import Fault

    if not isinstance(item, Fault):
        return f"healthy, {item.model}"
    rank = "" if item.rank is None else f", rank {item.rank}"
    return f"{'|'.join(item.kinds)} {item.place}, step {item.step}{rank}; {item.model}, {item.area}"


def identity() -> dict[str, str]:
    """Version, commit, and a checksum of the libraries that judge."""
    from msprobe import _core
    from msprobe.native import __version__

    digest = hashlib.sha256()
    native = Path(_core.__file__).parent
    for path in sorted([*native.glob("_core*.so"), *native.glob("**/libmsprobe.so*")]):
        digest.update(path.read_bytes())
    return {"version": __version__, "commit": this_commit(), "sha256": digest.hexdigest()[:16]}


def summary(cells: dict[str, Cell]) -> dict[str, Any]:
    """Of one column."""
    faults = {name: cell for name, cell in cells.items() if "counts" in cell}
    healthy = {name: cell for name, cell in cells.items() if "counts" not in cell}
    asked = {name: cell for name, cell in faults.items() if cell["counts"] == "yes"}

    def among(*outcomes: str) -> int:
        return sum(cell["outcome"] in outcomes for cell in asked.values())

    return {
        "faults": len(faults),
        "asked": len(asked),
        "first": among("first"),
        "named": among("first", "named"),
        "other": among("other"),
        "no_culprit": among("unexplained", "incomplete", "same"),
        "failed": sorted(name for name, cell in cells.items() if cell["outcome"] == "failed"),
        "called_same": sorted(name for name, cell in cells.items() if _is_called_same(cell)),
        "healthy": len(healthy),
        "accused": sorted(name for name, cell in healthy.items() if cell["outcome"] == "accused"),
        "incomplete": sorted(name for name, cell in healthy.items() if cell["outcome"] == "incomplete"),
        "seconds": round(statistics.median(cell["seconds"] for cell in cells.values()), 3),
    }


def _is_called_same(cell: Cell) -> bool:
    """The worst answer: it differs beyond rounding, or at all, and the word says that it does not."""
    if cell["status"] == "equal":
        return bool(cell["differs"])
    return cell["status"] in SAME and "counts" in cell and bool(cell["beyond"])


# ---- for people


class Progress:
    def __init__(self, word: str, total: int) -> None:
        self._word, self._total, self._done = word, total, 0
        self._begin = self._said = time.monotonic()

    def one(self) -> None:
        self._done += 1
        now = time.monotonic()
        if now - self._said > 30 or self._done == self._total:
            self._said = now
            print(
                f"{self._word} {self._done} of {self._total} in {now - self._begin:.0f} s",
                file=sys.stderr,
                flush=True,
            )


def share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


_HEAD = ("column", "faults", "first", "named", "no culprit", "called the same", "healthy", "accused", "s")


def _row(name: str, item: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        str(item["asked"]),
        share(item["first"], item["asked"]),
        share(item["named"], item["asked"]),
        share(item["no_culprit"], item["asked"]),
        str(len(item["called_same"])),
        str(item["healthy"]),
        str(len(item["accused"])),
        f"{item['seconds']:.2f}",
    )


def text_of(cells: Cells) -> str:
    rows = [_HEAD, *(_row(name, summary(items)) for name, items in in_order(cells))]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    for name, items in in_order(cells):
        found = summary(items)
        for what in ("called_same", "accused", "failed"):
            if found[what]:
                lines.append(f"{name}: {what.replace('_', ' ')}: {', '.join(found[what])}")
    return "\n".join(lines)


def changes(before: Cells, after: Cells) -> list[str]:
    """Which cells are another answer, the worse ones first."""
    found = []
    for name, items in in_order(after):
        for case, cell in items.items():
            old = before.get(name, {}).get(case)
            if old is None or (old["outcome"], old["first"], old["status"]) == (
                cell["outcome"], cell["first"], cell["status"],
            ):  # fmt: skip
                continue
            order = FAULT_OUTCOMES if "counts" in cell else HEALTHY_OUTCOMES
            step = order.index(cell["outcome"]) - order.index(old["outcome"])
            word = "worse" if step > 0 else "better" if step < 0 else "other"
            text = f"{word:6} {name:38} {case:24} {_said(old)} -> {_said(cell)}"
            found.append((-step, text))
    return [text for _, text in sorted(found)]


def _said(cell: Cell) -> str:
    return f"{cell['outcome']} ({cell['status']}{': ' + cell['first'] if cell['first'] else ''})"


# ---- the command


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    if options.diff:
        before, after = (json.loads(Path(path).read_text())["cells"] for path in options.diff)
        print(*(changes(before, after) or ["no cell changed"]), sep="\n")
        return 0
    from catalogue import BY_NAME
    from recordings import cases, is_recorded
    from truth import is_measurable

    columns = wanted_columns(options.columns)
    names = options.only or (SAMPLE if options.sample else list(BY_NAME))
    precisions, modes = ({name.split("/")[i] for name in columns} for i in (0, 1))
    wanted = cases(names, [p for p in PRECISIONS if p in precisions], [m for m in MODES if m in modes])
    needed = wanted + [
        case._replace(mode="quiet") for case in wanted if case.mode == "noise"
    ]  # what is planted
    results = Results(options.out, options.cache, again=options.again)
    if not options.no_record:
        results.faults = record_all(options.cache, list(dict.fromkeys(needed)), columns, options.workers)
    if not options.no_ask:
        jobs = []
        for case in wanted:
            if case.mode not in modes or case.name not in names or not is_measurable(options.cache, case):
                continue
            own = [c for c in columns if c.startswith(f"{case.precision}/{case.mode}/")]
            own = [c for c in own if not results.has(c, case)]
            own = [c for c in own if is_recorded(options.cache, case, c.split("/")[2])]
            if own:
                jobs.append((case, own))
        ask_all(options.cache, jobs, results, options.workers)
    results.write()
    shown = {name: {case: cell for case, cell in items.items() if case in names}
             for name, items in results.cells.items() if name in columns}  # fmt: skip
    shown = {name: items for name, items in shown.items() if items}
    print(text_of(shown))
    if results.faults:
        print("not recorded:", *results.faults, sep="\n  ")
    if options.page:
        from page import page_of

        asked = "".join(f" --columns '{name}'" for name in options.columns)
        options.page.write_text(page_of(results.cells, results.identity, asked))
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    from catalogue import BY_NAME

    parser = argparse.ArgumentParser(
        description="The table of all verdicts.", epilog=f"columns: {', '.join(wanted_columns(())[:2])} ..."
    )
    add = parser.add_argument
    add("cache", type=Path, nargs="?", help="folder of the recordings; made if needed")
    add("-o", "--out", type=Path, default=Path("results.json"), help="file with all cells")
    add(
        "--only", action="append", metavar="NAME", help="this fault or healthy run; may be repeated, or a,b,c"
    )
    add(
        "--columns",
        action="append",
        metavar="GLOB",
        default=[],
        help="e.g. 'bfloat16/*/statistics/*'; may be repeated",
    )
    add("--sample", action="store_true", help="some faults and healthy runs of each kind")
    add("--again", action="store_true", help="ask again what the results have")
    add("--no-record", action="store_true", help="ask about what is recorded already")
    add("--no-ask", action="store_true", help="record only")
    add("--workers", type=int, default=2, help="processes at a time (default: 2)")
    add("--page", type=Path, help="write the page of the documentation there")
    add("--diff", nargs=2, metavar=("BEFORE", "AFTER"), help="which cells of two files of results differ")
    options = parser.parse_args(arguments)
    options.only = [name for text in options.only or () for name in text.split(",")]
    if options.cache is None and not options.diff:
        parser.error("expected the folder of the recordings")
    unknown = [name for name in options.only if name not in BY_NAME]
    if unknown:
        parser.error(f"--only: no fault or healthy run {', '.join(unknown)}")
    if not wanted_columns(options.columns):
        parser.error("--columns: no column has such a name")
    return options


if __name__ == "__main__":
    sys.exit(main())
