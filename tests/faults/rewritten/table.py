# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Healthy pairs that a refactoring makes: scripts of the held-out sets against themselves, rewritten.

    python tests/faults/rewritten/table.py OUT [--only REGEX] [--workers N] [--page docs/rewrites.md]

In the target a function of torch is an equal composition (rewrites.py), or kernels are others. Records what
is missing with `msprobe run`, asks `msprobe diagnose` about every pair, and prints who is accused. The
msprobe that records and is asked is that of the interpreter. A recording is made anew when its script has
changed, and not when a composition or the recorder has: use another OUT then. A run is a process forked from
one that has imported torch.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "unseen"), str(HERE.parent)]

from case import AVX2_KERNELS, DEFAULT_KERNELS, FOREACH, NO_MKLDNN, Case, Edits  # noqa: E402
from cases import SETS  # noqa: E402
from commit import this_commit  # noqa: E402
from forking import forked  # noqa: E402
from held_out import HEALTHY_LIMIT, furthest, judged  # noqa: E402
from recording import Run, edited, folder_of, is_recorded  # noqa: E402
from rewrites import REWRITES, rewritten  # noqa: E402

TIMEOUT = 100
CHANNELS_LAST: Edits = (("# model built", "model.to(memory_format=torch.channels_last)"),)
DTYPES = ("float32", "16 bits")
SPENT = ("tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth")
"""Sets whose scripts are rewritten: nothing of them was asked before these sets were spent."""


@dataclass(frozen=True)
class Pair:
    kind: str
    dtype: str
    reference: Run
    target: Run

    @property
    def name(self) -> str:
        return f"{self.reference.script}, {self.dtype}: {self.kind}"


def _targets(script: str, text: str) -> Iterator[tuple[str, Run]]:
    yield "kernels without vectors", Run(script, text, DEFAULT_KERNELS)
    yield "kernels of AVX2", Run(script, text, AVX2_KERNELS)
    yield "kernels without oneDNN", Run(script, edited(text, NO_MKLDNN))
    if "foreach=False" in text:
        yield "foreach optimizers", Run(script, edited(text, FOREACH))
    if "Conv2d" in text and "\nmodel = " in text and CHANNELS_LAST[0][0] in text:
        yield "channels_last", Run(script, edited(text, CHANNELS_LAST))
    for kind in REWRITES:
        changed = rewritten(text, kind)
        if changed is not None:
            yield kind, Run(script, changed)


def all_pairs() -> list[Pair]:
    cases = [case for name in SPENT for case in SETS[name]]
    scripts = {case.script for case in cases}
    low = {case.script: case.both for case in cases if case.both and not case.resumed}
    found = []
    for path in sorted((HERE.parent / "unseen" / "scripts").glob("*.py")):
        script, text = path.stem, path.read_text(encoding="utf-8")
        if script not in scripts or script.startswith("two_") or "transformers" in text:
            continue
        texts = [text, edited(text, low[script])] if script in low else [text]
        for dtype, ours in zip(DTYPES, texts):
            reference = Run(script, ours)
            found += [Pair(kind, dtype, reference, target) for kind, target in _targets(script, ours)]
    return found


# ---- runs


def _to(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def record(out: Path, run: Run) -> int:
    signal.alarm(TIMEOUT)
    folder, place = folder_of(out, run), out / "scripts" / run.key
    shutil.rmtree(folder, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{run.script}.py").write_text(run.text, encoding="utf-8")
    _to(folder.with_suffix(".log"))
    os.chdir(place)
    os.environ.update(run.environment)
    from msprobe.cli import main

    return main(["run", "-o", str(folder), f"{run.script}.py"])


def _answer_of(out: Path, pair: Pair) -> Path:
    return out / "answers" / pair.target.key


def ask(out: Path, pair: Pair) -> int:
    answer = _answer_of(out, pair)
    shutil.rmtree(answer, ignore_errors=True)
    _to(answer.with_suffix(".log"))
    from msprobe.cli import main

    runs = [str(folder_of(out, run)) for run in (pair.reference, pair.target)]
    return main(["diagnose", *runs, "-o", str(answer), "--quiet", "--no-graph"])


def cell_of(out: Path, pair: Pair) -> dict[str, Any]:
    """What came of it; `unfit`: not recorded, or no healthy pair by what the scripts printed."""
    if not (is_recorded(out, pair.reference) and is_recorded(out, pair.target)):
        return {"outcome": "unfit", "first": "not recorded"}
    apart = furthest(out, (pair.reference, pair.target))
    if not apart <= HEALTHY_LIMIT:  # nor where it is NaN
        return {"outcome": "unfit", "first": f"differs by {apart:.1g}"}
    try:
        content = json.loads((_answer_of(out, pair) / "diagnose.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"outcome": "failed", "status": "", "first": "no answer", "apart": apart}
    cell = judged(Case(pair.name, pair.reference.script), content)
    if content["cause"]:
        cell["first"] = f"step {content['cause']['step']}: {cell['first']}"
    return {**cell, "apart": apart}


# ---- the page

_TOP = """# Rewritten trainings

What a refactoring changes, and must not be accused of: {scripts} training scripts, each against itself with
a function of torch written as an equal composition, or run by other kernels. Made by one command, which
records both with `msprobe run` and asks `msprobe diagnose`; `tests/faults/rewritten/rewrites.py` has the
compositions:

    python tests/faults/rewritten/table.py OUT --page docs/rewrites.md

Asked at `{commit}`: {asked} pairs{part}, **{accused} accused ({percent:.1f} %)**. {differ} differ at all, and
of these {percent_of_differing:.1f} % are accused. Left out: {far} pairs whose printed losses or weights are
more than {limit:.0%} apart, and {missing} that could not be recorded.

The scripts are those of the tenth to the fifteenth [held-out set](held_out.md) that run in one process and
without `transformers`. When these pairs were asked first nobody had seen an answer to one of them. Those of
the tenth to the thirteenth set at `70f01457`: of 1,955 pairs 43 were accused (2.2 %), of the 1,008 that
differ 4.3 %. Those of the fourteenth and fifteenth at `910184b5`, with rules that came of the former
([decision 56](adr/0056-what-calls-make-of-gradients.md)): of 969 pairs 27 (2.8 %), of the 504 that differ
5.4 %. Rules were chosen with all of these in view since
([decision 57](adr/0057-what-a-program-computes.md)), so the shares above say nothing of other trainings.
Before that the scripts of the first to the fifth set were rewritten: 39 of 2,807 pairs were accused at
`2bc34d1f`, with rules that were chosen with them in view.

**float32**, **16 bits** (bfloat16, or autocast to it): pairs; **differ**: the answer is not that they are
equal in all.

| rewrite | float32 | differ | accused | 16 bits | differ | accused |
|---|---|---|---|---|---|---|
"""


def page_of(cells: dict[Pair, dict[str, Any]], part: str, commit: str) -> str:
    unfit = [cell["first"] for cell in cells.values() if cell["outcome"] == "unfit"]
    asked = {pair: cell for pair, cell in cells.items() if cell["outcome"] != "unfit"}
    wrong = {pair: cell for pair, cell in asked.items() if cell["outcome"] != "clear"}
    differ = [pair for pair, cell in asked.items() if cell["status"] != "equal"]
    accused = sum(cell["outcome"] == "accused" for cell in wrong.values())
    text = _TOP.format(
        scripts=len({pair.reference.script for pair in asked}), commit=commit, asked=len(asked), part=part,
        accused=accused, percent=100 * accused / len(asked), differ=len(differ), limit=HEALTHY_LIMIT,
        percent_of_differing=100 * accused / max(len(differ), 1),
        far=len(unfit) - unfit.count("not recorded"), missing=unfit.count("not recorded"),
    )  # fmt: skip
    for kind in dict.fromkeys(pair.kind for pair in sorted(asked, key=lambda pair: pair.kind.lower())):
        row = [kind]
        for dtype in DTYPES:
            these = [pair for pair in asked if (pair.kind, pair.dtype) == (kind, dtype)]
            row += [str(len(these)), str(len(set(these) & set(differ)))]
            row.append(str(sum(asked[pair]["outcome"] == "accused" for pair in these)))
        text += f"| {' | '.join(row)} |\n"
    if wrong:
        text += "\n## Which ones\n\n**differs by**: the largest relative difference of printed losses and "
        text += (
            "weights.\n\n| pair | differs by | outcome | first cause, or the answer |\n|---|---|---|---|\n"
        )
    for pair, cell in wrong.items():
        first = cell["first"].replace("|", "\\|")[:160]
        text += f"| {pair.name} | {cell['apart']:.1g} | {cell['outcome']} | {first} |\n"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("out", type=Path, help="folder of recordings and answers")
    add("--only", metavar="REGEX", default="", help='pairs, as "arcface, 16 bits: linear by @"')
    add("--workers", type=int, default=2)
    add("--no-record", action="store_true", help="what is not recorded is left out")
    add("--page", type=Path, help="writes the page of the documentation")
    options = parser.parse_args()
    out, everything = options.out.resolve(), all_pairs()
    pairs = [pair for pair in everything if re.search(options.only, pair.name)]
    if not options.no_record:
        import msprobe.pytorch
        import torch._dynamo  # noqa: F401

        runs = dict.fromkeys(run for pair in pairs for run in (pair.reference, pair.target))
        missing = [(out, run) for run in runs if not is_recorded(out, run)]
        forked(missing, record, options.workers, "recorded")
    import msprobe.diagnose.parts  # noqa: F401

    ready = [p for p in pairs if is_recorded(out, p.reference) and is_recorded(out, p.target)]
    forked([(out, pair) for pair in ready], ask, options.workers, "asked")
    cells = {pair: cell_of(out, pair) for pair in pairs}
    for pair, cell in cells.items():
        if cell["outcome"] != "clear":
            print(f"{pair.name:50} {cell['outcome']:10} {cell['first'][:110]}")
    if options.page:
        part = "" if len(pairs) == len(everything) else f", a part of {len(everything)}"
        options.page.write_text(page_of(cells, part, this_commit()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
