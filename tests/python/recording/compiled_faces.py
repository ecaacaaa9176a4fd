# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""A training that is compiled in four ways, with one face of msprobe around it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, ClassVar


class Training:
    """What is compiled: a function, a whole module, a module in place, the step of the optimizer."""

    def __init__(self) -> None:
        import torch
        from torch import nn

        class Part(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.fc = nn.Linear(6, 6)
                self.norm = nn.LayerNorm(6)

            def forward(self, x: Any) -> Any:
                return self.norm(torch.tanh(self.fc(x))).square().mean()

        torch.manual_seed(3)
        self.model = nn.ModuleDict({name: Part() for name in ("function", "whole", "in_place", "plain")})

    def compile(self) -> None:
        import torch

        options: Any = {"backend": "eager", "fullgraph": True}
        model: Any = self.model
        parts = (
            torch.compile(lambda x: model["function"](x), **options),
            torch.compile(model["whole"], **options),
        )
        model["in_place"].compile(**options)
        self.parts = [*parts, model["in_place"], model["plain"]]

    def train(self, face: Any) -> dict[str, Any]:
        import torch

        losses = []
        broken = -1
        self.optimizer = torch.optim.Adam(self.model.parameters(), 0.01)
        face.begin(self)
        self.compile()
        step = torch.compile(self.optimizer.step, backend="eager")
        from torch._dynamo.utils import counters

        with face:
            for _ in range(4):
                face.begin_step(self)
                x = torch.randn(4, 6)
                loss = sum(part(x) for part in self.parts)
                if broken < 0:  # torch breaks that of an optimizer by itself
                    broken = sum(counters["graph_break"].values())
                losses.append(loss.item())
                loss.backward()
                step()
                self.optimizer.zero_grad()
                face.end_step()
        weights = [parameter.double().sum().item() for parameter in self.model.parameters()]
        return {
            "losses": losses,
            "weights": weights,
            "compiled": dict(counters["stats"]),
            "broken": broken,
        }


class Face(contextlib.ExitStack):
    """Nothing of msprobe."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def begin(self, training: Training) -> None: ...

    def begin_step(self, training: Training) -> None: ...

    def end_step(self) -> None: ...


class Capture(Face):
    def begin(self, training: Training) -> None:
        import msprobe

        self.enter_context(msprobe.capture(output=self.folder / "run", level="mix"))


class Monitor(Face):
    def begin(self, training: Training) -> None:
        import msprobe

        self.enter_context(
            msprobe.monitor(training.model, training.optimizer, self.folder / "run", quantities=["all"])
        )


class Trainer(Face):
    def begin(self, training: Training) -> None:
        from msprobe.pytorch import TrainerMon

        settings = {"xy_distribution": True, "all_xy": True, "stack_info": True, "wg_distribution": True}
        (self.folder / "tmon.json").write_text(json.dumps(settings))
        os.environ["MONITOR_OUTPUT_DIR"] = str(self.folder / "run")
        monitor = TrainerMon(str(self.folder / "tmon.json"), params_have_main_grad=False)
        monitor.set_monitor(training.model, optimizer=training.optimizer, grad_acc_steps=1)


class Debugger(Face):
    settings: ClassVar[dict[str, Any]] = {"task": "statistics", "level": "mix"}

    def begin(self, training: Training) -> None:
        from msprobe.pytorch import PrecisionDebugger

        path = self.folder / "config.json"
        path.write_text(json.dumps({**self.settings, "dump_path": str(self.folder / "run")}))
        self.debugger = PrecisionDebugger(str(path))

    def begin_step(self, training: Training) -> None:
        self.debugger.start(training.model)

    def end_step(self) -> None:
        self.debugger.stop()
        self.debugger.step()


class FreeBenchmark(Debugger):
    settings: ClassVar[dict[str, Any]] = {
        "task": "free_benchmark",
        "free_benchmark": {"pert_mode": "bit_noise"},
    }


class Dispatch(Face):
    def __enter__(self) -> Any:
        from msprobe.pytorch.online_dispatch import PtdbgDispatch

        return self.enter_context(PtdbgDispatch(dump_mode="OFF", dump_path=str(self.folder)))


class Run(Face):
    """As a script, which `msprobe run` starts."""


FACES = {one.__name__: one for one in (Face, Capture, Monitor, Trainer, Debugger, FreeBenchmark, Dispatch)}


def train(face: str, folder: Path, early: bool) -> dict[str, Any]:
    """early: the compiler is loaded before msprobe. Otherwise the optimizer does so, or torch.compile()."""
    if early:
        import torch._dynamo  # noqa: F401
    else:
        assert "torch._dynamo" not in sys.modules
    os.chdir(folder)
    if face.startswith("Run"):
        return _run(folder, *face.split()[1:])
    return Training().train(FACES[face](folder))


def _run(folder: Path, *options: str) -> dict[str, Any]:
    from msprobe.cli import main

    script = folder / "train.py"
    answer = folder / "answer.json"
    script.write_text(
        f"import json, sys\nfrom pathlib import Path\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from compiled_faces import Face, Training\n"
        f"Path({str(answer)!r}).write_text(json.dumps(Training().train(Face(Path()))))\n"
    )
    code = main(["run", "-o", str(folder / "run"), *options, str(script)])
    assert code == 0, code
    found: dict[str, Any] = json.loads(answer.read_text())
    return found
