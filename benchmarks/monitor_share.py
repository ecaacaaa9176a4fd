# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What does the monitor add to a training step, where two trainings side by side are too noisy to say it?

    python benchmarks/monitor_share.py [--steps 60] [--sizes compute operator]

Taken from inside of one training: the processor's time of the thread that trains between the script's call of
`optimizer.step()` and `backward()` and the beginning of torch's own, and behind it, which is all that the
monitor does in that thread when no module is watched; and what other threads of the process take, which is
the one that writes. One step in ten is recorded, and steps of both kinds are told apart. A share is that of
the rest of the same step. What the same clocks read in a training without a monitor is taken off. Reported
are medians, and the quartiles of a recorded step.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import measure
import msprobe
import torch
from dump_worker import Decoder
from torch.nn import functional

_QUANTITIES = ["training", "gradient", "weight", "moment"]
_WANTED = {"compute": 1.002}


@dataclass
class Steps:
    """Seconds of each step of one kind."""

    own: list[float] = field(default_factory=list)  # of the training
    added: list[float] = field(default_factory=list)  # in its thread
    elsewhere: list[float] = field(default_factory=list)  # in other threads

    @property
    def shares(self) -> list[float]:
        return [added / own for added, own in zip(self.added, self.own)]


class Training:
    def __init__(self, size: str, folder: str | None) -> None:
        """folder: None: without a monitor."""
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self._model = Decoder(size)
        self._ids = torch.randint(0, self._model.words, self._model.batch_shape)
        self._labels = torch.randint(0, self._model.words, self._model.batch_shape)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-4)
        self._torchs_step = self._optimizer.step
        setattr(self._optimizer, "step", self._timed_step)  # noqa: B010 - below the monitor, which takes what it finds
        self.monitor: Any = None
        if folder is not None:
            options: dict[str, Any] = {"quantities": _QUANTITIES, "every": 10}
            self.monitor = msprobe.monitor(self._model, self._optimizer, folder, **options)
        self._inside = 0.0
        self._begun = 0.0

    def _timed_step(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.thread_time()
        result = self._torchs_step(*args, **kwargs)
        self._inside = time.thread_time() - begin
        return result

    def _mark(self, _: torch.Tensor) -> None:
        self._begun = time.thread_time()

    def step(self, into: Steps) -> None:
        process, thread = time.process_time(), time.thread_time()
        logits = self._model(self._ids)
        loss = functional.cross_entropy(logits.view(-1, self._model.words), self._labels.view(-1))
        loss.register_hook(self._mark)  # type: ignore[no-untyped-call]
        before_backward = time.thread_time()
        torch.autograd.backward(loss)
        before_step = time.thread_time()
        self._optimizer.step()
        after_step = time.thread_time()
        self._optimizer.zero_grad()
        whole = time.thread_time() - thread
        added = self._begun - before_backward + after_step - before_step - self._inside
        into.own.append(whole - added)
        into.added.append(added)
        into.elsewhere.append(time.process_time() - process - whole)


def benchmark(size: str, count: int) -> list[str]:
    recorded, others, plain = Steps(), Steps(), Steps()
    with tempfile.TemporaryDirectory() as folder:
        training, without = Training(size, folder), Training(size, None)
        for _ in range(10):  # series, memory and the optimizer's state are made in the first ones
            training.step(Steps())
            without.step(Steps())
        for number in range(count):
            training.step(others if number % 10 else recorded)
            if number % 5 == 0:
                without.step(plain)
        training.monitor.close()
    own = statistics.median([*recorded.own, *others.own])
    clocks = statistics.median(plain.shares)
    # The writer's time is small and falls into any step: all of it, spread over the recorded ones.
    writer = sum(recorded.elsewhere + others.elsewhere) / len(recorded.own) / own
    here = statistics.median(recorded.shares) - clocks
    between = statistics.median(others.shares) - clocks
    low, _, high = (share - clocks for share in statistics.quantiles(recorded.shares, n=4))
    tenth = 1 + (here + writer + 9 * between) / 10
    wanted = _WANTED.get(size)
    return [
        size,
        measure.duration(own),
        f"{100 * here:.2f} % ({100 * low:.2f} to {100 * high:.2f})",
        f"{100 * writer:.3f} %",
        f"{100 * between:.4f} %",
        f"{100 * clocks:.4f} %",
        f"{tenth:.5f}x",
        "" if wanted is None else f"{wanted:.3f}x",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--sizes", nargs="+", choices=["compute", "operator"], default=["compute"])
    options = parser.parse_args()
    header = [
        "model", "plain step", "a recorded step adds", "its writer", "any other step adds", "clocks",
        "every tenth", "wanted",
    ]  # fmt: skip
    print(measure.table(header, [benchmark(size, options.steps) for size in options.sizes]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
