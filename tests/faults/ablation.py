# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What each number and rule of the verdict decides: numbers are multiplied and divided by 2 and 4 and put
where they say nothing, rules are switched off; then everything that is recorded is judged again.

    python tests/faults/ablation.py OUT                            asks all; records nothing
    python tests/faults/ablation.py OUT --page docs/ablation.md    and writes the page
    python tests/faults/ablation.py OUT --only '^(own|kink)'       some numbers and rules, in a minute

What is in the results is not asked again, so the command can be stopped and goes on. OUT has recordings:
`plants` of table.py, `library` of library/table.py, `unseen` of unseen/held_out.py, `devices` of runs that
msprobe recorded on two devices, `pairs`, which this program records with --record.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _folder in (HERE / "unseen", HERE / "library", HERE):
    sys.path.insert(0, str(_folder))

import table as table_of_plants  # noqa: E402
from asking import Model, Question  # noqa: E402
from commit import this_commit  # noqa: E402
from judging import FAULT_OUTCOMES, HEALTHY_OUTCOMES, Answer  # noqa: E402

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
"""Where a number has no effect."""


# ---- the questions


@dataclass(frozen=True)
class OfRuns:
    """What is asked of two runs of which dumps are a part: is the first culprit at the place?"""

    place: str
    """Regular expression; empty: healthy."""
    steps: tuple[int, ...] = ()

    def __call__(self, answer: Answer) -> str:
        if answer.fault or not self.place:
            return answer.outcome(None)
        keys = ("kind", "name", "module", "record", "operator")
        right = [
            re.search(self.place, " ".join(str(one[key] or "") for key in keys)) is not None
            and (not self.steps or one["step"] in self.steps)
            for one in answer.culprits
        ]
        if any(right):
            return "first" if right[0] else "named"
        return "other" if right else "same" if answer.is_same else "unexplained"


def plants(out: Path) -> Iterator[Question]:
    from catalogue import BY_NAME
    from recordings import cases, is_recorded
    from truth import is_measurable

    for case in cases(BY_NAME, table_of_plants.PRECISIONS, table_of_plants.MODES):
        if case.mode not in table_of_plants.MODES or not is_recorded(out, case, "statistics"):
            continue
        for kind in table_of_plants.KINDS if is_measurable(out, case) else ():
            yield table_of_plants.question(out, case, table_of_plants.column(case, "statistics", kind))


def library(out: Path) -> Iterator[Question]:
    module = _loaded("library/table.py")
    for pair in module.PAIRS:
        golden, target = (module.folder_of(out, words) for words in (pair.reference, pair.target))
        if module.is_recorded(out, pair.reference) and module.is_recorded(out, pair.target):
            outcome = OfRuns(pair.place, (pair.step,) if pair.place else ())
            yield Question(f"library/{pair.column}/{pair.name}", golden / "dump", target / "dump", outcome)


def unseen(out: Path) -> Iterator[Question]:
    """Of the sets that are spent, by their names; another is not to be asked while rules change."""
    from cases import SETS
    from recording import folder_of, is_recorded, runs_of

    for name in (
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
        "eleventh",
        "twelfth",
        "thirteenth",
        "fourteenth",
        "fifteenth",
        "sixteenth",
    ):
        for case in SETS[name]:
            runs = runs_of(case)
            if all(is_recorded(out / name, run) for run in runs):
                golden, target = (folder_of(out / name, run) / "dump" for run in runs)
                outcome = OfRuns(case.place, tuple(case.steps))
                yield Question(f"unseen/{name}/{case.name}", golden, target, outcome)


def devices(out: Path) -> Iterator[Question]:
    """`pairs.json` there: of each pair its name, reference, target, place (empty: healthy) and steps."""
    file = out / "pairs.json"
    for name, golden, target, place, steps in json.loads(file.read_text()) if file.exists() else ():
        outcome = OfRuns(place, tuple(steps))
        yield Question(f"devices/{name}", out / golden / "dump", out / target / "dump", outcome)


def pairs(out: Path) -> Iterator[Question]:
    """Small pairs that a verdict once got wrong."""
    from pairs import PAIRS

    for pair in PAIRS:
        for way in pair.ways:
            runs = out / f"{pair.name}-{way}"
            if (runs / "done").exists():
                place = (pair.culprit or ".") if "differ" in pair.statuses else ""
                yield Question(f"pairs/{way}/{pair.name}", runs / "golden", runs / "target", OfRuns(place))


SIDES = ("golden", "target")
TABLES = {one.__name__: one for one in (plants, library, pairs, unseen, devices)}
WORDS = {
    "plants": "planted faults and healthy runs",
    "library": "pairs of models of `transformers`",
    "pairs": "small pairs that a verdict once got wrong",
    "unseen": "pairs of the held-out sets, which are spent",
    "devices": "pairs between a CPU and a GPU",
}


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


def record_pairs(out: Path, workers: int) -> None:
    """What is missing of the small pairs."""
    import msprobe.pytorch  # noqa: F401  once, for all processes that are forked
    from forking import forked
    from pairs import PAIRS
    from pairs import record as record_pair

    def work(name: str, way: str, side: str) -> int:
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 1)
            os.dup2(null.fileno(), 2)
        record_pair(name, way, target=side == "target", folder=out / f"{name}-{way}" / side)
        return 0

    missing = [(p.name, way) for p in PAIRS for way in p.ways if not (out / f"{p.name}-{way}/done").exists()]
    for name, way in missing:
        shutil.rmtree(out / f"{name}-{way}", ignore_errors=True)
    forked([(name, way, side) for name, way in missing for side in SIDES], work, workers, "recorded")
    for name, way in missing:
        if (out / f"{name}-{way}/target").exists():
            (out / f"{name}-{way}/done").touch()


# ---- asking


def mutants(numbers: dict[str, float], rules: list[str], factors: list[float]) -> dict[str, Model]:
    """By their names: what is another one."""
    found: dict[str, Model] = {}
    for name, value in numbers.items():
        for factor in factors:
            found[f"{name} x {factor:g}"] = {name: value * factor}
            found[f"{name} / {factor:g}"] = {name: value / factor}
        if name in OFF:
            found[f"{name} off"] = {name: OFF[name]}
    return found | {f"{name} off": {name: 0} for name in rules}


Said = tuple[str, str]
"""Outcome and first culprit."""


Answers = dict[str, dict[str, Said]]
"""By question and mutant; "" is the verdict as it is."""


def ask(
    out: Path, tables: list[str], only: str, models: dict[str, Model], known: Answers, part: int, parts: int
) -> Answers:
    """What is not known of a part of the questions."""
    questions = [one for table in tables for one in TABLES[table](out / table) if re.search(only, one.name)]
    found: Answers = {}
    for question in questions[part::parts]:
        missing = {"": {}, **models}.keys() - known.get(question.name, {}).keys()
        outcomes: dict[str, str] = {}
        found[question.name] = {}
        for mutant, answer in zip(missing, question.answers([models.get(one, {}) for one in missing])):
            key = f"{answer.status} {answer.culprits} {answer.fault}"
            if key not in outcomes:
                outcomes[key] = question.outcome(answer)
            found[question.name][mutant] = outcomes[key], answer.first
    return found


def read(results: Path) -> Answers:
    """What was asked of this very judgement before."""
    content = json.loads(results.read_text()) if results.exists() else {}
    if content.get("sha256") != table_of_plants.identity()["sha256"]:
        return {}
    return {
        name: {mutant: (said[0], said[1]) for mutant, said in answers.items()}
        for name, answers in content["answers"].items()
    }


def write(results: Path, answers: Answers) -> None:
    content = {"sha256": table_of_plants.identity()["sha256"], "answers": answers}
    results.write_text(json.dumps(content, indent=0) + "\n")


@dataclass
class Change:
    """What another model makes of the answers."""

    asked: int
    worse: list[str]
    better: list[str]
    other: list[str]
    """Another first culprit."""


def compared(answers: Answers, mutant: str) -> Change:
    asked = {name: said for name, said in answers.items() if mutant in said}
    change = Change(len(asked), [], [], [])
    for name, said in asked.items():
        (old, first), (new, other_first) = said[""], said[mutant]
        order = HEALTHY_OUTCOMES if old in HEALTHY_OUTCOMES and new in HEALTHY_OUTCOMES else FAULT_OUTCOMES
        if new == old:
            if first != other_first:
                change.other.append(name)
        elif {old, new} <= set(order) and order.index(new) < order.index(old):
            change.better.append(f"{name}: {old} -> {new}")
        else:
            change.worse.append(f"{name}: {old} -> {new}")
    return change


# ---- the page

_TOP = """# What each number and rule of the verdict decides

Numbers of the error model are multiplied and divided, *off* puts one where it says nothing; rules are
switched off, each alone. Then {count} questions are judged again about the same recordings: {tables}.
**Worse**: a fault that was first is not, or a healthy pair is accused. **Better**: the other way round.
**Other**: another first culprit. **Asked**: of how many of the questions. Of runs that `msprobe run` recorded
the dumps are judged, and not what `diagnose` says of losses and settings besides. A rule without an effect
here stays where a unit test shows why it is there, or where it is for what these recordings do not have:
layouts, trainers, dumps of modules alone.

Made at commit `{commit}` by one command:

    python tests/faults/ablation.py OUT{options} --page docs/ablation.md
"""
_GONE = """
## Gone

Each of these was switched off, and nothing that was asked and no script that once failed changed its
answer for the worse; unit tests that asked for the rule alone went with it. Calls of one run: that others
of that run may take what they make, and that another tensor counts by what the module makes of it.
Values: that what does not exist yet in the target is no source, that terms count with their coefficients,
that a mask may not be recorded. What has no distance: that a product of equal tensors of another shape is
a fault by itself, that what a module is given is the same inside of it, that the order of tensors which
are clipped together does not matter, each gradient by itself where clipping differs (the norm of all
tells). The step: that the stretch begins where a result is too far off and that gradients are in it, and
a list of settings of modules by their names.

Then, of 2,861 questions (all planted ones among them) and 1,229 rewritten trainings, none was answered worse
without these together: that the bias of a product has a plain sum as its gradient; that a part of a tensor
may have most of its errors; that terms which are one number are rounded in one direction; that the mean which
a normalisation takes out is rounded; that elements of one number, or the largest one, are cast in one
direction; that gradients which are clipped are measured against the typical one, or count as they were
before; that calls of equal names which have a tensor for a number, or as many numbers in another shape, are
others; that a flag of a gradient counts in the model alone. What no question here needs, and a test of real
kernels or a script of `tests/python/recording` does, stays: that partial sums are rounded to 16 bits, that a
channel has errors in common, that an argument may show in the backward call alone.

Three more were taken out, and put back, as their reasons hold where these questions do not go. The bias of a
key has a gradient that is 0 but for rounding, Adam moves it in any direction, and its average with it:
`averaged_weights`. A factor of another tensor is another factor, though calls of equal names are paired:
`another_tensor`. Where several calls take a result, its gradient is their sum, and the call of one run is
named and not the gradient: `takers` changes two sentences here, and an outcome of the third held-out set.

Then pairs were asked that nobody had seen, each rule off: the fourteenth held-out set, and 1,955 rewritten
trainings. `another_tensor`, `expected_losses`, `averaged_weights` and `module_in_coarsest` are needed there,
though no row above says so. What is done with gradients between the backward pass and the
optimizer was a finding of its own; nothing needed it, and it is gone.
"""
IN_PARTS = ("plants", "unseen")
"""Tables of which the page says what of them was asked: precisions, and sets."""
_HEAD = "| {} | asked | worse | better | other | such as |\n|---|---|---|---|---|---|{}\n"


def _parts(table: str, asked: list[str]) -> str:
    if table not in IN_PARTS:
        return ""
    parts = {name.split("/")[1] for name in asked if name.startswith(f"{table}/")}
    return f" ({', '.join(sorted(parts))})"


def page_of(
    numbers: dict[str, float],
    rules: dict[str, str],
    changes: dict[str, Change],
    asked: list[str],
    options: str = "",
) -> str:
    """`asked`: the names of the questions."""
    counts = Counter(name.split("/")[0] for name in asked)
    tables = ", ".join(
        f"{counts[table]:,} {words}{_parts(table, asked)}" for table, words in WORDS.items() if counts[table]
    )
    commit = this_commit()
    text = _TOP.format(count=f"{len(asked):,}", tables=tables, commit=commit, options=options)
    named = [mutant for mutant in changes if mutant.split(" ")[0] in numbers]
    if named:
        text += "\n## Numbers\n\n" + _HEAD.format("number", "")
    quiet = []
    for mutant in named:
        change = changes[mutant]
        if change.worse or change.better or change.other:
            name, _, how = mutant.partition(" ")
            text += _row(f"`{name}` {numbers[name]:g} {how}", change)
        else:
            quiet.append(mutant)
    if quiet:
        text += f"\nNot noticed by any question: {', '.join(quiet)}. Unit tests notice each x 2 and / 2.\n"
    named = [mutant for mutant in changes if mutant.split(" ")[0] in rules]
    if named:
        text += "\n## Rules\n\n" + _HEAD.format("rule | what it says", "---|")
    weight = {name: len(changes[name].worse) * 1000 + len(changes[name].other) for name in named}
    for mutant in sorted(named, key=lambda name: -weight[name]):
        name = mutant.split(" ")[0]
        text += _row(f"`{name}` | {rules[name]}", changes[mutant])
    return text + _GONE


def _row(name: str, change: Change) -> str:
    which = "; ".join([*change.worse, *change.better, *change.other][:2])
    cells = [name, change.asked, len(change.worse), len(change.better), len(change.other), which]
    return f"| {' | '.join(map(str, cells))} |\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("out", type=Path)
    add("--only", default="", metavar="REGEX", help="these mutants, as 'own x 2' or 'kink off'")
    add("--questions", default="", metavar="REGEX", help="these, as 'plants/float32/.*/bare'")
    add("--factors", type=float, nargs="*", default=[2.0, 4.0])
    add("--tables", nargs="*", choices=WORDS, default=list(WORDS))
    add("--record", action="store_true", help="the small pairs that are missing")
    add("--workers", type=int, default=2)
    add(
        "-o",
        "--results",
        type=Path,
        default=Path("ablation.json"),
        help="all answers, which are not asked again",
    )
    add("--page", type=Path, help="the page of the documentation")
    options = parser.parse_args()
    out = options.out.resolve()
    if options.record:
        record_pairs(out / "pairs", options.workers)
    from msprobe import _core

    numbers = {name: value for name, value, _ in _core.verdict_numbers()}
    rules = dict(_core.verdict_switches())
    chosen = {
        mutant: model
        for mutant, model in mutants(numbers, list(rules), options.factors).items()
        if re.search(options.only, mutant)
    }
    answers = read(options.results)
    with ProcessPoolExecutor(options.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        words = (out, options.tables, options.questions, chosen, answers)
        asked = [pool.submit(ask, *words, part, 32) for part in range(32)]
        for part in as_completed(asked):
            for name, said in part.result().items():
                answers.setdefault(name, {}).update(said)
            write(options.results, answers)
    failed = [name for name, said in answers.items() if said[""][0] == "failed"]
    if failed:
        print(f"{len(failed)} of {len(answers)} questions have no answer, as {failed[0]}", file=sys.stderr)
        return 1
    changes = {mutant: compared(answers, mutant) for mutant in chosen}
    changes = {mutant: change for mutant, change in changes.items() if change.asked}
    for mutant, change in changes.items():
        counts = [len(names) for names in (change.worse, change.better, change.other)]
        print(f"{mutant:32} {counts[0]:3} worse {counts[1]:3} better {counts[2]:3} other of {change.asked}")
    if options.page:
        narrowed = "".join(
            f" --{word} '{value}'"
            for word, value in (("only", options.only), ("questions", options.questions))
            if value
        )
        if options.tables != list(WORDS):
            narrowed += f" --tables {' '.join(options.tables)}"
        options.page.write_text(page_of(numbers, rules, changes, list(answers), narrowed), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
