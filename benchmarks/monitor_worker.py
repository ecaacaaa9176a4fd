# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training process for monitor.py: without a monitor, with ours, or with that of the existing tool."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from dump_worker import Decoder
from measure import serve
from torch.nn import functional


class Training:
    def __init__(self, settings: dict[str, Any]) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self._model = Decoder(settings["size"])
        self._ids = torch.randint(0, self._model.words, self._model.batch_shape)
        self._labels = torch.randint(0, self._model.words, self._model.batch_shape)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-4)
        self._folder = Path(settings["directory"])
        kind, options = settings["kind"], settings["options"]
        self._monitor: Any = None
        if kind == "ours":
            import msprobe

            self._monitor = msprobe.monitor(self._model, self._optimizer, self._folder / "out", **options)
        elif kind == "theirs":
            from msprobe.pytorch import TrainerMon

            os.environ["MONITOR_OUTPUT_DIR"] = str(self._folder / "out")
            config = self._folder / "config.json"
            config.write_text(json.dumps(options))
            config.chmod(0o640)
            self._monitor = TrainerMon(str(config), params_have_main_grad=False)
            self._monitor.set_monitor(self._model, self._optimizer, grad_acc_steps=1)

    def steps(self, count: int) -> list[tuple[float, float]]:
        """Wall and processor seconds of each step; those of the thread that writes are counted, too."""
        return [self._step() for _ in range(count)]

    def _step(self) -> tuple[float, float]:
        wall, processor = time.perf_counter(), time.process_time()
        logits = self._model(self._ids)
        loss = functional.cross_entropy(logits.view(-1, self._model.words), self._labels.view(-1))
        torch.autograd.backward(loss)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return time.perf_counter() - wall, time.process_time() - processor

    def weights(self) -> str:
        """All of them, to the last bit."""
        import hashlib

        digest = hashlib.sha256()
        for parameter in self._model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        return digest.hexdigest()


def main() -> None:
    training = Training(json.loads(sys.argv[1]))
    names = ("steps", "weights")
    serve(int(sys.argv[2]), int(sys.argv[3]), {name: getattr(training, name) for name in names})


if __name__ == "__main__":
    main()
