# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a training step costs when msprobe records it, as a multiple of the same step without it.

Compared is processor time, in turns within one process: in each round some plain steps, and the same number
in each case. The ratio is that of the thread that trains; in brackets that of all threads, with the one that
writes, which needs a core of its own or slows the training to that. Printed are medians over the rounds. The
first steps of a round prepare the recording and are left out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msprobe
import torch
from models import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

_ONLY_DUMP = {"without": ("config", "losses", "gradients"), "diagnosis": False}
Times = tuple[float, float]  # of the thread that trains, of all threads

CASES: dict[str, dict[str, Any]] = {
    "between": {"without": (), "steps": [0], "level": "mix"},  # steps that are not wanted
    "L0": {**_ONLY_DUMP, "level": "L0"},
    "mix": {**_ONLY_DUMP, "level": "mix"},
    "all": {"without": (), "level": "mix"},  # what msprobe run records without options
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0].replace("\n", " "))
    parser.add_argument("models", nargs="+", choices=KINDS)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=8, help="in each case of a round")
    args = parser.parse_args()
    torch.set_num_threads(1)
    # One folder for all, removed at the end: ext4 is slow to make files for a while after many were removed.
    with tempfile.TemporaryDirectory() as folder:
        for model in dict.fromkeys(args.models):
            out = Path(folder, model)
            plain, ratios = measure(model, args.width, args.layers, args.rounds, args.steps, out)
            shown = ", ".join(
                f"{case} {of_thread:.2f} ({of_all:.2f})" for case, (of_thread, of_all) in ratios.items()
            )
            print(f"{model}: " * (len(args.models) > 1) + f"{plain * 1000:.1f} ms: {shown}", flush=True)


def measure(
    name: str, width: int, layers: int, rounds: int, steps: int, out: Path
) -> tuple[float, dict[str, tuple[float, float]]]:
    """Seconds of a plain step, and the ratios for the thread that trains and for all; records into `out`."""
    out.mkdir()
    torch.manual_seed(7)
    model = KINDS[name].build(width, layers).train()
    step = one_step(model, KINDS[name].batch)
    for _ in range(3):
        step()
    times: dict[str, list[Times]] = {case: [] for case in ("plain", *CASES)}
    for number in range(rounds):
        order = list(times)
        for case in order[number % len(order) :] + order[: number % len(order)]:
            times[case].append(seconds(case, model, step, steps, out / f"{case}{number}"))

    def ratio(case: str, which: int) -> float:
        return statistics.median(
            ours[which] / plain[which] for ours, plain in zip(times[case], times["plain"])
        )

    plain = statistics.median(of_thread for of_thread, _ in times["plain"]) / steps
    return plain, {case: (ratio(case, 0), ratio(case, 1)) for case in CASES}


def one_step(model: Any, batch: Callable[[], Any]) -> Callable[[], None]:
    # Weights that stay: where they change, a mixture of experts asks others, and more or fewer of them.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    same = batch()

    def step() -> None:
        loss = model(**same).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def seconds(case: str, model: Any, step: Callable[[], None], steps: int, out: Path) -> Times:
    if case == "plain":
        return timed(step, steps)
    wish = dict(CASES[case])
    if not wish.pop("diagnosis", True):
        out.with_suffix(".yaml").write_text("task: statistics\nstatistics: {diagnosis: []}\n")
        wish["config"] = out.with_suffix(".yaml")
    with msprobe.capture(model, out, **{"steps": "all", **wish}):
        for _ in range(3):
            step()
        return timed(step, steps)


def timed(step: Callable[[], None], steps: int) -> Times:
    begin = time.thread_time(), time.process_time()
    for _ in range(steps):
        step()
    return time.thread_time() - begin[0], time.process_time() - begin[1]


if __name__ == "__main__":
    sys.exit(main())
