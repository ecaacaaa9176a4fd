# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer twice, the second time with one layer computed wrongly from step 3 on, and lets
msprobe find the step and the layer.

Exit code 0: found. 1: not found, or a part of the job failed. 2: something that is needed is not installed.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WRONG_STEP = 3
WRONG_LAYER = "layers.2."


class ExampleError(Exception):
    """One sentence for the person who ran this."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0].replace("\n", " "))
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/quickstart"),
        metavar="DIR",
        help="where to write; run_a, run_b and comparison in it are replaced (default: %(default)s)",
    )
    out = parser.parse_args().out.absolute()
    sys.stdout.reconfigure(line_buffering=True)  # also into a pipe, where the lines of the command go as well
    for package in ("torch", "msprobe"):
        if importlib.util.find_spec(package) is None:
            print(f"{sys.executable} has no package {package}: see README.md", file=sys.stderr)
            return 2
    try:
        return quick_start(out)
    except (ExampleError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def quick_start(out: Path) -> int:
    begin = time.monotonic()
    print("[1/3] run A: a small transformer learns fourteen sonnets")
    losses_a = train(out / "run_a")
    print(f"[2/3] run B: the same, but layer 2 forgets the attention scale from step {WRONG_STEP} on")
    losses_b = train(out / "run_b", "--wrong-from", str(WRONG_STEP))
    print("[3/3] msprobe grad_compare: the signs of all gradients of both runs")
    verdict = compare(out)

    print()
    print("step   loss A   loss B   gradient signs that agree")
    for step, similarity in overall_similarities(out / "comparison" / "rank0" / "similarities.csv"):
        print(f"{step:4}  {losses_a[step]:7.4f}  {losses_b[step]:7.4f}   {similarity:8.2%}")

    first = verdict["first"] or {}
    step, parameter = first.get("step"), first.get("parameter")
    if step != WRONG_STEP or not str(parameter).startswith(WRONG_LAYER):
        raise ExampleError(f"found step {step}, {parameter}; expected step {WRONG_STEP} and {WRONG_LAYER}*")
    print()
    print(f"Found as planted: step {step}, {parameter} ({time.monotonic() - begin:.0f} s)")
    print(f"Open in a browser: {out / 'comparison' / 'report.html'}")
    return 0


def train(folder: Path, *arguments: str) -> list[float]:
    """Runs train.py as a process of its own, in a folder with a copy of config.json. Returns the losses."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(HERE / "config.json", folder)
    command = [sys.executable, str(HERE / "train.py"), *arguments]
    losses = []
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print("      " + line, end="", flush=True)
            losses.append(float(line.split()[-1]))
    if process.returncode != 0:
        raise ExampleError(f"{' '.join(command)}: exit code {process.returncode}, expected 0 (in {folder})")
    return losses


def compare(out: Path) -> dict[str, Any]:
    """The command of a user, and what it says in verdict.json."""
    result = out / "comparison"
    shutil.rmtree(result, ignore_errors=True)
    records = [str(out / run / "probe") for run in ("run_a", "run_b")]
    arguments = ["grad_compare", *records, "-o", str(result)]
    code = subprocess.run([sys.executable, "-m", "msprobe", *arguments]).returncode
    if code != 1:  # 0: the runs agree; 2: an error
        raise ExampleError(f"msprobe {' '.join(arguments)}: exit code {code}, expected 1 (the runs differ)")
    return json.loads((result / "verdict.json").read_text(encoding="utf-8"))


def overall_similarities(path: Path) -> list[tuple[int, float]]:
    """(step, similarity over all parameters), from the first and the last row of similarities.csv."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    return [(int(step), float(similarity)) for step, similarity in zip(rows[0][1:], rows[-1][1:])]


if __name__ == "__main__":
    sys.exit(main())
