# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a small model in two jobs that should be alike, with three differences planted, and lets msprobe
find them.

Exit code 0: found. 1: not found, or a part of the job failed. 2: something that is needed is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent

SETTINGS = """\
train:
  seed: 42
  lr: {lr}
  betas: [0.9, 0.999]
model: {{hidden: 64}}
"""


@dataclass(frozen=True)
class Job:
    name: str
    lr: str
    shards: str
    environment: dict[str, str] = field(default_factory=dict)


JOBS = (
    Job("job_a", lr="0.001", shards="0 1 2 3"),
    # On the other machine somebody tried another learning rate and left it, the file system lists the shards
    # in another order, and an old work-around is still in the profile.
    Job("job_b", lr="0.0012", shards="2 0 3 1", environment={"ATEN_CPU_CAPABILITY": "default"}),
)
PLANTED = {
    ("dataset", "order of the data"),
    ("hyperparameters", "train.lr"),
    ("variables", "ATEN_CPU_CAPABILITY"),
}
# What follows from them: the weights part after the first step.
CONSEQUENCES = {("weights", "weights after the first step")}


class ExampleError(Exception):
    """One sentence for the person who ran this."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0].replace("\n", " "))
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/config_check"),
        metavar="DIR",
        help="where to write; job_a, job_b and comparison in it are replaced (default: %(default)s)",
    )
    out = parser.parse_args().out.absolute()
    sys.stdout.reconfigure(line_buffering=True)  # also into a pipe, where the lines of the command go as well
    for package in ("torch", "msprobe"):
        if importlib.util.find_spec(package) is None:
            print(f"{sys.executable} has no package {package}: see README.md", file=sys.stderr)
            return 2
    try:
        for number, job in enumerate(JOBS, 1):
            print(f"[{number}/3] {job.name} trains")
            train(out / job.name, job)
        print("[3/3] msprobe config_check: what differs between the jobs")
        check(compare(out))
    except (ExampleError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print()
    print("Found as planted: the order of the data, the learning rate and a variable of the environment")
    print(f"Open in a browser: {out / 'comparison' / 'report.html'}")
    return 0


def train(folder: Path, job: Job) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "settings.yaml").write_text(SETTINGS.format(lr=job.lr))
    (folder / "shards.txt").write_text(job.shards)
    environment = {name: value for name, value in os.environ.items() if name != "ATEN_CPU_CAPABILITY"}
    done = subprocess.run(
        [sys.executable, str(HERE / "train.py"), str(folder)],
        env={**environment, **job.environment},
        check=False,
    )
    if done.returncode:
        raise ExampleError(f"the training in {folder} failed")


def compare(out: Path) -> dict[str, object]:
    shutil.rmtree(out / "comparison", ignore_errors=True)
    packs = [str(out / job.name / "pack.zip") for job in JOBS]
    command = [sys.executable, "-m", "msprobe", "config_check", "-c", *packs, "-o", str(out / "comparison")]
    done = subprocess.run(command, check=False)
    if done.returncode != 1:
        raise ExampleError(f"expected exit code 1 (they differ), found {done.returncode}")
    result: dict[str, object] = json.loads((out / "comparison" / "result.json").read_text())
    return result


def check(result: dict[str, object]) -> None:
    differences = result["differences"]
    assert isinstance(differences, list)
    found = {(one["check"], one["name"]) for one in differences if one["level"] == "error"}
    if found != PLANTED | CONSEQUENCES:
        raise ExampleError(f"found {sorted(found)}, expected {sorted(PLANTED | CONSEQUENCES)}")


if __name__ == "__main__":
    sys.exit(main())
