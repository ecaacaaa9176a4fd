# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What each number of the error model decides: each is multiplied and divided by 2 and 4, and put where its
rule says nothing; then all tables are asked again about the same recordings.

    python tests/faults/ablation.py OUT                             records what is missing, asks; can go on
    python tests/faults/ablation.py OUT --page docs/ablation.md     and writes the page
    python tests/faults/ablation.py OUT --only 'own|sum' --factors 2

OUT keeps recordings, and answers of commands, which are asked again where msprobe is another one. All mutants
cost some minutes of processor time with `--tables plants`, whose dumps are read once; with the others each
costs half a minute and more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _folder in (HERE / "library", HERE):
    sys.path.insert(0, str(_folder))

import table as table_of_plants  # noqa: E402
from judging import FAULT_OUTCOMES, HEALTHY_OUTCOMES  # noqa: E402

COLUMNS = ("float32/*/statistics/*", "bfloat16/*/statistics/*")
"""Of the table of planted faults: its sample is recorded, and whatever is recorded is asked."""

INFINITE = 1e30
OFF = {
    "sum": 0,
    "bias": 0,
    "few_elements": 2,
    "negligible": 0,
    "mask": 1e300,  # the least number of a dtype is one
    "opaque": 1,
    "most_together": INFINITE,
}
"""Where a number has no effect, so that its rule is off."""


@dataclass(frozen=True)
class Question:
    name: str
    """Table, column and pair."""
    ask: Callable[[Path], str]
    """The outcome; the folder is empty, and this question's own."""


# ---- the tables


def _library(out: Path) -> list[Question]:
    """Faults in the source of transformers, and healthy pairs, of `msprobe diagnose`."""
    library = _loaded("library/table.py")
    runs = out / "library"

    def question(pair: Any) -> Question:
        def ask(folder: Path) -> str:
            (folder / "runs").symlink_to(runs / "runs")
            library.ask(folder, pair)
            return str(library.judged(folder, pair, 0.0)["outcome"])

        return Question(f"library/{pair.column}/{pair.name}", ask)

    pairs = [pair for pair in library.PAIRS if not pair.column.startswith("large")]
    return [
        question(pair)
        for pair in pairs
        if all(library.is_recorded(runs, one) for one in (pair.reference, pair.target))
    ]


@dataclass(frozen=True)
class Plant:
    """A pair of the table of planted faults, of which the verdict alone is asked: its dumps are read once for
    all mutants.
    """

    column: str
    case: Any

    @property
    def name(self) -> str:
        return f"plants/{self.column}/{self.case.name}"

    def asked(self, cache: Path, values: dict[str, tuple[str, float]]) -> dict[str, str]:
        """The outcome under each mutant, and under "" as it is."""
        from judging import Answer
        from msprobe import _core
        from recordings import dump_of, golden_of, without_diagnosis

        dumps = [dump_of(cache, one, "statistics") for one in (golden_of(self.case), self.case)]
        with tempfile.TemporaryDirectory() as folder:
            if self.column.endswith("/bare"):
                bare = [Path(folder, side) for side in ("golden", "target")]
                for dump, into in zip(dumps, bare):
                    without_diagnosis(dump, into)
                dumps = bare
            reference, target = map(by_step, dumps)
            pairs = [
                (*place, _core.open_dump_pair(target[place], reference[place], threads=1))
                for place in sorted(set(reference) & set(target))
            ]
        found = {}
        for mutant, (number, value) in {"": ("own", _value("own")), **values}.items():
            before = _value(number)
            _core.set_verdict_number(number, value)
            begin = time.process_time()
            walks: list[Any] = []
            last: dict[int, Any] = {}
            for step, rank, pair in pairs:
                last[rank] = pair.walk(step=step, rank=rank, before=last.get(rank), threads=1)
                walks.append(last[rank])
            verdict = _core.judge(walks)
            _core.set_verdict_number(number, before)
            keys = ("kind", "name", "module", "operator", "step", "rank")
            culprits = tuple({key: getattr(one, key) for key in keys} for one in verdict.culprits)
            answer = Answer(verdict.status, culprits, "", "", time.process_time() - begin)
            cells = {self.column: {self.case.name: answer.as_json()}}
            table_of_plants.judge(cache, cells)
            found[mutant] = str(cells[self.column][self.case.name]["outcome"])
        return found


def _value(number: str) -> float:
    from msprobe import _core

    return float(next(value for name, value, _ in _core.verdict_numbers() if name == number))


def by_step(folder: Path) -> dict[tuple[int, int], Path]:
    """dump.json by step and rank."""
    found = {}
    for path in folder.rglob("dump.json"):
        place = [
            next((int(one.name[4:]) for one in path.parents if re.fullmatch(rf"{word}\d+", one.name)), 0)
            for word in ("step", "rank")
        ]
        found[place[0], place[1]] = path
    return found


def plants(out: Path) -> list[Plant]:
    from catalogue import BY_NAME
    from recordings import cases, is_recorded

    columns = table_of_plants.wanted_columns(COLUMNS)
    return [
        Plant(column, case)
        for case in cases(BY_NAME, ["float32", "bfloat16"], ["quiet", "noise"])
        for column in columns
        if column.startswith(f"{case.precision}/{case.mode}/")
        and is_recorded(out / "plants", case, "statistics")
    ]


def _pairs(out: Path) -> list[Question]:
    """Small pairs that a verdict once got wrong."""
    from pairs import PAIRS

    found = []
    for pair in PAIRS:
        for way in pair.ways:
            runs = out / "pairs" / f"{pair.name}-{way}"
            if (runs / "done").exists():

                def ask(folder: Path, pair: Any = pair, way: str = way, runs: Path = runs) -> str:
                    return _ask_pair(folder, pair, way, runs)

                found.append(Question(f"pairs/{way}/{pair.name}", ask))
    return found


def _ask_pair(folder: Path, pair: Any, way: str, runs: Path) -> str:
    from msprobe.cli import main

    is_run = way == "diagnose"
    words = [str(runs / side / ("run" if is_run else "dump")) for side in ("golden", "target")]
    words += ["-o", str(folder / "answer"), "--quiet", "--force"]
    main(["diagnose", *words, "--no-graph"] if is_run else ["compare", *words, "--format", "csv", "-c"])
    text = (folder / "answer" / ("diagnose.json" if is_run else "verdict.json")).read_text(encoding="utf-8")
    content = json.loads(text)
    first = content["cause"] if is_run else next(iter(content["culprits"]), None)
    keys = ("stage", "name", "module", "record") if is_run else ("kind", "name", "module", "operator")
    said = " ".join(str((first or {}).get(key) or "") for key in keys).strip()
    is_right = (
        content["status"] in pair.statuses
        and re.search(pair.culprit, said)
        and re.search(pair.mentions, text)
    )
    if "differ" in pair.statuses:
        return (
            "first"
            if is_right
            else "other"
            if first
            else "unexplained"
            if content["status"] == "differ"
            else "same"
        )
    return "clear" if is_right else "accused"


TABLES = {"pairs": _pairs, "library": _library}
"""Those whose questions are asked of a command, once for each mutant."""


def _loaded(path: str) -> Any:
    """A program of this folder, as a module: two of them are called table.py."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(path.replace("/", "_")[:-3], HERE / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def record(out: Path, tables: list[str], workers: int) -> None:
    """What is missing."""

    def call(*words: str) -> None:
        subprocess.run(
            [sys.executable, *words, "--workers", str(workers)], check=True, stdout=subprocess.DEVNULL
        )

    if "library" in tables:
        call(
            str(HERE / "library/table.py"), str(out / "library"), "-o", str(out / "library.json"), "--no-ask"
        )
    if "plants" in tables:
        columns = [word for column in COLUMNS for word in ("--columns", column)]
        call(
            str(HERE / "table.py"),
            str(out / "plants"),
            "--sample",
            "--no-ask",
            "-o",
            str(out / "p.json"),
            *columns,
        )
    if "pairs" in tables:
        _record_pairs(out / "pairs", workers)


def _record_pairs(out: Path, workers: int) -> None:
    import msprobe.pytorch  # noqa: F401  once, for all processes that are forked
    from pairs import PAIRS
    from pairs import record as record_pair

    def work(name: str, way: str, side: str) -> int:
        record_pair(name, way, target=side == "target", folder=out / f"{name}-{way}" / side)
        return 0

    missing = [(p.name, way) for p in PAIRS for way in p.ways if not (out / f"{p.name}-{way}/done").exists()]
    for name, way in missing:
        shutil.rmtree(out / f"{name}-{way}", ignore_errors=True)
    forked([(name, way, side) for name, way in missing for side in ("golden", "target")], work, workers)
    for name, way in missing:
        if (out / f"{name}-{way}/target").exists():
            (out / f"{name}-{way}/done").touch()


# ---- asking


def forked(jobs: list[tuple[Any, ...]], work: Callable[..., int], workers: int) -> None:
    """Each job in a process of its own, which has what this one has imported and set."""
    running: set[int] = set()
    for job in jobs:
        if len(running) >= workers:
            running.discard(os.wait()[0])
        child = os.fork()
        if child:
            running.add(child)
            continue
        try:
            with open(os.devnull, "wb") as null:
                os.dup2(null.fileno(), 1)
                os.dup2(null.fileno(), 2)
            work(*job)
        finally:
            os._exit(0)
    for child in running:
        os.waitpid(child, 0)


def answers(out: Path, questions: list[Question], workers: int) -> dict[str, str]:
    """Outcomes, by the name of the question; what was asked already is read."""

    def work(question: Question, file: Path) -> int:
        folder = file.with_suffix(".work")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        outcome = question.ask(folder)
        if outcome != "failed":  # that is asked again
            file.write_text(outcome, encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        return 0

    files = {q.name: out / re.sub(r"[^\w.]+", "_", q.name) for q in questions}
    missing = [
        (question, files[question.name]) for question in questions if not files[question.name].exists()
    ]
    out.mkdir(parents=True, exist_ok=True)
    forked(missing, work, workers)
    return {name: file.read_text() if file.exists() else "failed" for name, file in files.items()}


def mutants(numbers: dict[str, float], factors: list[float]) -> dict[str, tuple[str, float]]:
    """Name of the mutant: number and value."""
    found = {}
    for name, value in numbers.items():
        for factor in factors:
            found[f"{name} x {factor:g}"] = (name, value * factor)
            found[f"{name} / {factor:g}"] = (name, value / factor)
        if name in OFF:
            found[f"{name} off"] = (name, OFF[name])
    return found


# ---- what came of it


def compared(before: dict[str, str], after: dict[str, str]) -> dict[str, list[str]]:
    """Questions whose outcome is worse, better; names with both outcomes."""
    found: dict[str, list[str]] = {"worse": [], "better": []}
    for name, old in before.items():
        new = after[name]
        if new == old:
            continue
        order = HEALTHY_OUTCOMES if old in HEALTHY_OUTCOMES and new in HEALTHY_OUTCOMES else FAULT_OUTCOMES
        is_worse = order.index(new) > order.index(old) if {old, new} <= set(order) else True
        found["worse" if is_worse else "better"].append(f"{name}: {old} -> {new}")
    return found


_TOP = """# What each number of the verdict decides

Numbers of the error model are changed as the table says, where *off* puts one where its rule says
nothing; then {questions} questions are asked again about the same recordings: {tables}.
A number whose change no unit test notices needs one, or goes. Made at commit `{commit}` by one
command, which can be stopped and goes on:

    python tests/faults/ablation.py OUT --page docs/ablation.md{options}

| number | value | mutant | worse | better | which |
|---|---|---|---|---|---|
"""


_WORDS = {
    "pairs": "small pairs that a verdict once got wrong",
    "plants": "planted faults and healthy runs",
    "library": "faults in the source of `transformers`, and healthy pairs",
}


def page_of(
    numbers: dict[str, float],
    results: dict[str, dict[str, list[str]]],
    questions: int,
    commit: str,
    tables: Sequence[str] = tuple(_WORDS),
    options: str = "",
) -> str:
    """`options`: of the command, where not everything was asked."""
    words = "; ".join(_WORDS[name] for name in tables)
    text = _TOP.format(questions=questions, commit=commit, tables=words, options=options)
    unnoticed = []
    for name, value in numbers.items():
        own = {mutant: found for mutant, found in results.items() if mutant.split(" ")[0] == name}
        if own and not any(found["worse"] or found["better"] for found in own.values()):
            unnoticed.append(name)
            continue
        for mutant, found in own.items():
            which = [*found["worse"], *found["better"]]
            shown = "; ".join(which[:3]) + (f"; and {len(which) - 3} more" if len(which) > 3 else "")
            row = [
                name,
                f"{value:g}",
                mutant.partition(" ")[2],
                len(found["worse"]),
                len(found["better"]),
                shown,
            ]
            text += f"| {' | '.join(map(str, row))} |\n"
    if unnoticed:
        text += f"\nNot noticed by any question: {', '.join(f'`{name}`' for name in unnoticed)}.\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("out", type=Path)
    add("--only", default="", metavar="REGEX", help="these mutants, as 'own x 2'")
    add("--factors", type=float, nargs="*", default=[2.0, 4.0])
    add("--tables", nargs="*", choices=_WORDS, default=list(_WORDS))
    add("--workers", type=int, default=2)
    add("--page", type=Path, help="the page of the documentation")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    record(out, options.tables, options.workers)
    import asking
    import msprobe.diagnose.command  # noqa: F401
    from msprobe import _core

    asking.prepare()
    numbers = {name: value for name, value, _ in _core.verdict_numbers()}
    chosen = {
        mutant: change
        for mutant, change in mutants(numbers, options.factors).items()
        if re.search(options.only, mutant)
    }
    found: dict[str, dict[str, str]] = {"": {}, **{mutant: {} for mutant in chosen}}
    for plant in plants(out) if "plants" in options.tables else ():
        for mutant, outcome in plant.asked(out / "plants", chosen).items():
            found[mutant][plant.name] = outcome
    questions = [question for name in options.tables if name in TABLES for question in TABLES[name](out)]
    folder = out / "answers" / table_of_plants.identity()["sha256"]
    for mutant in found if questions else ():
        number, value = chosen.get(mutant, ("own", numbers["own"]))
        _core.set_verdict_number(number, value)
        name = re.sub(r"\W+", "_", mutant.replace("/", "by")) or "unchanged"
        found[mutant].update(answers(folder / name, questions, options.workers))
        _core.set_verdict_number(number, numbers[number])
    before = found.pop("")
    failed = [name for name, outcome in before.items() if outcome == "failed"]
    if failed:
        print(f"{len(failed)} of {len(before)} questions have no answer, as {failed[0]}", file=sys.stderr)
        return 1
    results = {mutant: compared(before, after) for mutant, after in found.items()}
    for mutant, changed in results.items():
        print(f"{mutant:28} {len(changed['worse']):3} worse {len(changed['better']):3} better")
    if options.page:
        commit = subprocess.run(
            ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        words = sys.argv[sys.argv.index("--page") + 2 :]
        asked = "".join(f" {shlex.quote(word)}" for word in words)
        options.page.write_text(
            page_of(numbers, results, len(before), commit, options.tables, asked), encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
