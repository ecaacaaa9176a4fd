# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Hunts the planted faults: python tests/faults/hunts.py OUT [--only REGEX] [--every N] [--pairs] [--healthy]
[--page FILE]. Each hunt begins with two command lines alone. What is there already is not hunted again.

A fault counts as proved when the hunt says so and what it proves, or the culprit that it names inside of what
it proves, is at the planted place. The processes of a run are forked of one that has imported torch.
"""

from __future__ import annotations

import argparse
import atexit
import json
import multiprocessing
import os
import re
import runpy
import shutil
import socket
import sys
import traceback
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "hunted.py"
STEPS = 3
LIMIT = 120

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["numpy", "torch", "torch.distributed", "torch._dynamo", "msprobe.experiment.inside", "msprobe.recorders"]
)


# ---- a run, forked


def run_child(words: list[str], work: str, environment: dict[str, str], output: str) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(work)
    sys.argv = words[1:]
    sys.path.insert(0, str(HERE))
    code: Any = 0
    try:
        from msprobe.experiment.inside import begin

        begin()
        runpy.run_path(words[1], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_forked(command: Any, work: Path, folder: Path, limit: float | None) -> int | None:
    """As msprobe.experiment.launch runs a command; torchrun stands for its processes."""
    from msprobe.experiment import launch

    environment = launch._environment(command, folder)
    words, ranks = list(command.words), 1
    if words[0] == "torchrun":
        ranks = int(words[2])
        words = [sys.executable, *words[3:]]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = []
    for rank in range(ranks):
        own = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank)}
        own.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
        more = own if ranks > 1 else {}
        arguments = (words, str(work), {**environment, **more}, str(folder / launch.OUTPUT))
        processes.append(CONTEXT.Process(target=run_child, args=arguments))
    for process in processes:
        process.start()
    for process in processes:
        process.join(limit)
    late = [process for process in processes if process.is_alive()]
    for process in late:
        process.kill()
        process.join()
    return None if late else max(abs(process.exitcode or 0) for process in processes)


# ---- a hunt


NOISE = {"environment": "1000", "command": "1000"}
"""Another device's rounding: the target's environment has it, or its command asks for it."""


def command_of(model: str, names: tuple[str, ...], noise: str = "") -> Any:
    from msprobe.experiment.command_line import Command
    from training import RECIPES

    ranks = RECIPES[model].ranks
    start = ("torchrun", "--nproc-per-node", str(ranks)) if ranks > 1 else (sys.executable,)
    more = ("--noise", NOISE[noise]) if noise == "command" else ()
    variables = {"PLANTED_NOISE": NOISE[noise]} if noise == "environment" else {}
    variables["OMP_NUM_THREADS"] = "1"
    return Command((*start, str(SCRIPT), model, *names, *more), variables, HERE / "kernels")


def folder_of(out: Path, names: tuple[str, ...], noise: str) -> Path:
    return out / "+".join((*names, *([f"noise_{noise}"] if noise else [])))


def hunted(out: Path, model: str, names: tuple[str, ...], noise: str = "") -> dict[str, Any]:
    """What the hunt answers. Of several faults each is given the runs that one is given otherwise."""
    from msprobe.experiment import launch
    from msprobe.hunt.hunting import hunt
    from msprobe.hunt.runs import SIDES, Hunt

    folder = folder_of(out, names, noise)
    file = folder / "hunt.json"
    if not file.exists():
        launch._waited = run_forked
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        asked = Hunt(command_of(model, ()), command_of(model, names, noise), folder, limit=LIMIT)
        there = command_of(model, (), noise) if noise == "environment" else None
        asked = replace(asked, most_runs=asked.most_runs * len(names), reference_there=there)
        try:
            hunt(asked)
        except Exception as error:
            content = {"status": "failed", "sentence": f"{type(error).__name__}: {error}"}
            file.write_text(json.dumps(content), encoding="utf-8")
        for side in SIDES:
            shutil.rmtree(folder / side, ignore_errors=True)
    return json.loads(file.read_text(encoding="utf-8"))


def names_place(folder: Path, answer: dict[str, Any], place: str) -> bool:
    """Whether the regular expression of the catalogue fits what was proved, or the culprit that is named."""
    causes = answer.get("causes", ())
    said = [one["said"] for one in causes] + [name for one in causes for name in one["changes"]]
    said += [answer.get("suspected", "")]
    for file in sorted(folder.glob("diagnosis/*/diagnose.json")):  # one for each cause
        cause = json.loads(file.read_text(encoding="utf-8")).get("cause") or {}
        said += [str(cause.get(key) or "") for key in ("name", "module", "record")]
    return any(re.search(place, text) for text in said)


def row_of(out: Path, names: tuple[str, ...], model: str, places: list[str], noise: str) -> dict[str, Any]:
    answer = hunted(out, model, names, noise)
    right = answer["status"] == "proved" and all(
        names_place(folder_of(out, names, noise), answer, place) for place in places
    )
    outcome = "proved" if right else "elsewhere" if answer["status"] == "proved" else answer["status"]
    return {
        "fault": " and ".join(names),
        "model": model,
        "outcome": outcome,
        "by": " ".join(name for cause in answer.get("causes", ()) for name in cause["changes"]),
        "said": answer["sentence"],
        "runs": answer.get("runs", {"reference": 0, "target": 0}),
    }


def pairs_of(faults: list[Any]) -> list[tuple[Any, Any]]:
    """Two independent ones: of one model, at places that are not those of the other."""
    found = []
    for one, other in combinations(faults, 2):
        if one.model == other.model and one.place != other.place and one.area != other.area:
            found.append((one, other))
    return found[:: max(1, len(found) // 20)][:20]


def page(rows: list[dict[str, Any]], title: str) -> str:
    proved = [row for row in rows if row["outcome"] in ("proved", "equal")]
    runs = [row["runs"]["target"] for row in rows if row["outcome"] == "proved"]
    lines = [f"## {title}", "", f"{len(proved)} of {len(rows)} are right"]
    lines[-1] += f"; {median(runs):g} runs of the target in the median." if runs else "."
    lines += ["", "| fault | model | outcome | put in | runs of reference, target |", "|---|---|---|---|---|"]
    for row in rows:
        runs_of = f"{row['runs']['reference']}, {row['runs']['target']}"
        by = re.sub(r"=\S*/", "=", row["by"]) or "|"
        lines.append(f"| {row['fault']} | {row['model']} | {row['outcome']} | {by.strip('|')} | {runs_of} |")
    return "\n".join([*lines, ""])


def main() -> int:
    sys.path.insert(0, str(HERE))
    from catalogue import CONTROLS, FAULTS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1, help="one of so many")
    parser.add_argument("--pairs", action="store_true", help="20 pairs of two independent faults")
    parser.add_argument("--healthy", action="store_true", help="pairs without a fault")
    parser.add_argument("--noise", choices=NOISE, default="", help="with the rounding of another device")
    parser.add_argument("--known", action="store_true", help="only those that were hunted before")
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args()
    noise = asked.noise
    if asked.pairs:
        cases = [((a.name, b.name), a.model, [a.place, b.place]) for a, b in pairs_of(list(FAULTS))]
    elif asked.healthy:
        cases = [((one.name,), one.model, []) for one in CONTROLS]
    else:
        cases = [((one.name,), one.model, [one.place]) for one in FAULTS]
    cases = [case for case in cases if re.search(asked.only, " ".join(case[0]))][:: asked.every]
    if asked.known:
        cases = [case for case in cases if (folder_of(asked.out, case[0], noise) / "hunt.json").exists()]
    rows = []
    for names, model, places in cases:
        rows.append(row_of(asked.out.resolve(), names, model, places, noise))
        row = rows[-1]
        print(
            f"{row['outcome']:10} {row['runs']} {row['fault']}: {row['said'][:150]} [{row['by']}]", flush=True
        )
    right = "equal" if asked.healthy else "proved"
    print(f"{sum(row['outcome'] == right for row in rows)} of {len(rows)}")
    if asked.page:
        asked.page.write_text(page(rows, "Hunts"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
