# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A small training with one planted source of nondeterminism, or with something that only looks like one.

KINDS: a source, and the change that has it repeat itself. HEALTHY: repeat themselves.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
import uuid
from typing import Any

KINDS = {
    "unseeded": "seed.torch",
    "time_seed": "fixed.time",
    "urandom_seed": "fixed.urandom",
    "uuid_seed": "fixed.urandom",
    "pid_seed": "fixed.pid",
    "torch_seed": "fixed.generators",
    "set_order": "env.PYTHONHASHSEED",
    "hash": "env.PYTHONHASHSEED",
    "fresh_random": "fixed.generators",
    "default_rng": "fixed.generators",
    "python_random": "seed.python",
    "numpy_random": "seed.numpy",
    "late_time": "fixed.time",
}
HEALTHY = (
    "plain", "seeded_python", "seeded_numpy", "sorted_set", "drawn_without_use", "logs_time", "workers",
    "accumulates", "bfloat16", "temporary_folder",
)  # fmt: skip

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h"]


def seed(kind: str) -> None:
    import torch

    if kind != "unseeded":
        torch.manual_seed(0)
    if kind == "time_seed":
        torch.manual_seed(int(time.time() * 1000))
    elif kind == "urandom_seed":
        torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
    elif kind == "uuid_seed":
        torch.manual_seed(uuid.uuid4().int % 2**32)
    elif kind == "pid_seed":
        torch.manual_seed(os.getpid())
    elif kind == "torch_seed":
        torch.seed()
    elif kind == "seeded_python":
        random.seed(1)
    elif kind == "seeded_numpy":
        import numpy

        numpy.random.seed(1)


def order(kind: str) -> list[str]:
    if kind == "set_order":
        return list(set(WORDS))
    return sorted(set(WORDS)) if kind == "sorted_set" else WORDS


class Rows:
    """A dataset of one row per word."""

    def __init__(self, words: list[str]) -> None:
        import torch

        generator = torch.Generator().manual_seed(1)
        rows = {word: torch.randn(8, generator=generator) for word in WORDS}
        self._rows = [rows[word] for word in words]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> Any:
        return self._rows[place]


def factor(kind: str, step: int, stream: random.Random) -> float:
    """What a step multiplies its data by."""
    if kind in ("python_random", "seeded_python"):
        return random.random()
    if kind in ("numpy_random", "seeded_numpy", "default_rng"):
        import numpy

        return float(numpy.random.default_rng().random() if kind == "default_rng" else numpy.random.rand())
    if kind == "hash":
        return hash("salt") % 1000 + 1
    if kind == "late_time" and step == 4:
        return 1 + time.time() % 1
    if kind == "drawn_without_use":
        random.random()
    return stream.random()


def main(kind: str) -> None:
    import torch

    seed(kind)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    data: Any = Rows(order(kind))
    loader = torch.utils.data.DataLoader(
        data, batch_size=4, shuffle=kind != "set_order", num_workers=2 * (kind == "workers")
    )
    stream = random.Random() if kind == "fresh_random" else random.Random(3)
    begin, step = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            for rows in loader:
                with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16"):
                    loss = (model(rows * factor(kind, step, stream)) - 1).pow(2).mean()
                loss.backward()
                if kind == "accumulates" and step % 2 == 0:
                    (model(rows) - 1).pow(2).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                if kind == "logs_time":
                    print(step, time.time(), time.perf_counter() - begin)
                if kind == "temporary_folder":
                    torch.save(model.state_dict(), os.path.join(folder, "model.pt"))


if __name__ == "__main__":
    main(sys.argv[1])
