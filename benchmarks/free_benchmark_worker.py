# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training process for free_benchmark.py: the decoder of the data dump, forward passes timed alone."""

from __future__ import annotations

import copy
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from dump_worker import Decoder
from measure import serve
from torch.nn import functional


class Training:
    """One model whose calls are made once, twice, or twice with the free benchmark."""

    def __init__(self, settings: dict[str, Any]) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self._model = Decoder(settings["size"]).to(getattr(torch, settings["dtype"]))
        self._ids = torch.randint(0, self._model.words, self._model.batch_shape)
        self._labels = torch.randint(0, self._model.words, self._model.batch_shape)
        self._directory = Path(settings["directory"])
        # What the second calls of these modes compute, by itself.
        improves = settings["mode"] in ("improve_precision", "to_cpu")
        self._better = copy.deepcopy(self._model).float() if improves else None
        from msprobe.pytorch import PrecisionDebugger

        section = {
            "pert_mode": settings["mode"],
            "fuzz_device": "cpu" if settings["mode"] == "to_cpu" else "npu",
        }
        path = self._directory / "config.json"
        content = {"task": "free_benchmark", "dump_path": str(self._directory), "free_benchmark": section}
        path.write_text(json.dumps(content))
        self._debugger: Any = PrecisionDebugger(path)

    def plain(self, count: int) -> list[float]:
        """Seconds of forward passes in which every call is made once."""
        return [self._forward() for _ in range(count)]

    def double(self, count: int) -> list[float]:
        """... and made a second time, in float32 where that is what the mode does."""
        return [self._forward() + self._forward(self._better) for _ in range(count)]

    def check(self, count: int) -> list[float]:
        """... under the free benchmark."""
        seconds = []
        for _ in range(count):
            self._debugger.start()
            seconds.append(self._forward())
            self._debugger.stop()
            self._debugger.step()
        return seconds

    def _forward(self, model: Any = None) -> float:
        begin = time.perf_counter()
        logits = (model or self._model)(self._ids)
        functional.cross_entropy(logits.view(-1, self._model.words).float(), self._labels.view(-1))
        return time.perf_counter() - begin


def main() -> None:
    training = Training(json.loads(sys.argv[1]))
    handlers = {name: getattr(training, name) for name in ("plain", "double", "check")}
    serve(int(sys.argv[2]), int(sys.argv[3]), handlers)


if __name__ == "__main__":
    main()
