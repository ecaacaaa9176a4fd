# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PrecisionDebugger of MindSpore trainings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, ClassVar

from msprobe import debugger
from msprobe.frameworks.mindspore.adapter_port import port_of_process
from msprobe.frameworks.mindspore.mindspore_port import MindSporePort

if TYPE_CHECKING:
    import os

    from msprobe.config import Config


def _dump(config: Config, model: object) -> debugger.WatchesCalls:
    from msprobe.dump.port_dump import PortDump

    return PortDump(config, port_of_process())


def _free_benchmark(config: Config, model: object) -> debugger.WatchesCalls:
    from msprobe.compat.free_benchmark.mindspore import MindSporeFreeBenchmark

    return MindSporeFreeBenchmark(config, MindSporePort())


def _grad_probe(config: Config, model: object) -> debugger.WatchesModel:
    from msprobe.grad_probe.port_probe import PortProbe

    return PortProbe(config, MindSporePort())


class PrecisionDebugger(debugger.PrecisionDebugger):
    """Watches a MindSpore training (PYNATIVE_MODE) as a configuration says; see the class of PyTorch.

    start(model): a Cell (with MSAdapter a torch.nn.Module), or a list or tuple of them; at level L1 it may be
    left out, and Primitives with it.
    monitor(optimizer): task grad_probe.
    """

    _of_model: ClassVar[dict[str, Callable[[Config, object], debugger.WatchesModel]]] = {
        "grad_probe": _grad_probe
    }
    _of_calls: ClassVar[dict[str, Callable[[Config, object], Any]]] = {
        **dict.fromkeys(("statistics", "tensor", "structure", "overflow_check"), _dump),
        "free_benchmark": _free_benchmark,
    }

    def __new__(
        cls,
        config_path: str | os.PathLike[str] | None = None,
        task: str | None = None,
        dump_path: str | os.PathLike[str] | None = None,
        level: str | None = None,
        step: list[int | str] | None = None,
    ) -> PrecisionDebugger:
        return super().__new__(cls, config_path, task, dump_path, level, None, step)  # type: ignore[return-value]
