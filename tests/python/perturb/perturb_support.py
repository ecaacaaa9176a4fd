# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Work under a perturbation, in this process, and small trainings of `msprobe perturb`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def perturbed(directory: Path, work: Any, *, mode: str = "calls", models: Any = (), steps: int = 1) -> Any:
    """The result of a perturbation of `work(step)`, and what each step returned."""
    from msprobe.perturb.recorder import Perturbation

    recorder = Perturbation(directory / "perturb", mode, (), shows_progress=False)
    recorder.models_found(list(models))
    returned = []
    for step in range(steps):
        recorder.begin_step(step)
        returned.append(work(step))
        recorder.end_step(step)
    recorder.close()
    assert recorder.result.faults == {}
    return recorder.result, returned


def verdict_of(folder: Path) -> Any:
    return json.loads((folder / "perturb" / "verdict.json").read_text(encoding="utf-8"))


class PerturbingDebugger:
    """Stands where small_models.train() has a debugger."""

    def __init__(self, directory: Path, mode: str) -> None:
        from msprobe.perturb.recorder import Perturbation

        self.recorder = Perturbation(directory / "perturb", mode, (), shows_progress=False)
        self._step = 0

    def start(self, model: Any) -> None:
        self.recorder.models_found([model])
        self.recorder.begin_step(self._step)

    def stop(self) -> None:
        self.recorder.end_step(self._step)

    def step(self) -> None:
        self._step += 1
