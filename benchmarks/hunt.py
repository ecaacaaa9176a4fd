# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a run of an experiment costs beside the plain one: checksums of each step, by which `msprobe hunt`,
`repeat` and `resume` tell where runs diverge.

    python benchmarks/hunt.py [--rounds 5] [--steps 6]

Ratios of the processor time of a step, in turns: a plain process, one of an experiment, and so on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from msprobe.experiment.command_line import Command
from msprobe.experiment.launch import run_command
from msprobe.experiment.plan import Plan

WORKER = str(Path(__file__).with_name("hunt_worker.py").resolve())


def seconds_of(folder: Path, size: str, steps: int, *, digests: bool) -> float:
    """The median of the steps of a process."""
    file = folder / "seconds.json"
    words = [sys.executable, WORKER, size, str(steps), str(file)]
    if digests:
        plan = Plan(str(folder / "run"))
        run_command(Command(tuple(words), folder=folder), plan, without=folder, limit=None)
    else:
        subprocess.run(words, check=True, cwd=folder)
    seconds: list[float] = json.loads(file.read_text())
    return statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    asked = parser.parse_args()
    for size, scale in (("compute", 1), ("operator", 5)):
        pairs = []
        for _ in range(asked.rounds):
            with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as ours:
                steps = asked.steps * scale
                pairs.append([
                    seconds_of(Path(plain), size, steps, digests=False),
                    seconds_of(Path(ours), size, steps, digests=True),
                ])  # fmt: skip
        ratio = statistics.median(b / a for a, b in pairs)
        plain_step = statistics.median(a for a, _ in pairs)
        print(f"{size}: {ratio:.3f} of the plain step, which takes {plain_step * 1e3:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
