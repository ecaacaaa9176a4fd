# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PrecisionDebugger: the one object a training script talks to."""

from __future__ import annotations

import atexit
import os
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, cast

from msprobe.config import Config, load_config
from msprobe.native import InvalidArgument, log

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.feature import Feature


# Task -> the class that does it; a module is imported when its task is configured.
_FEATURES = {
    "grad_probe": ("msprobe.grad_probe.probe", "Probe"),
    "free_benchmark": ("msprobe.free_benchmark.benchmark", "FreeBenchmark"),
    "monitor": ("msprobe.training_monitor", "MonitorTask"),
    **dict.fromkeys(
        ("statistics", "tensor", "structure", "overflow_check"), ("msprobe.dump.data_dump", "DataDump")
    ),
}

# Of start().
_IGNORED = {
    "rank_id": "the rank is that of torch.distributed",
    "scheduled_tokens": "all tokens are recorded; token_range chooses",
}


class PrecisionDebugger:
    """Watches a training run as a configuration says.

    There is one debugger in a process: a second construction returns the first object and ignores its
    arguments. All methods may be called on the class, from any file.

    config_path: a config.json (docs/formats/config.md). Without it every key has its default, and `dump_path`
        is ./dump_path.
    task, dump_path, level, step: win over the same keys of the file. That holds for task "grad_probe", too,
        where mindstudio-probe ignores `task` and `dump_path` given here.
    model: the default model of tasks that have `start`; not used by "grad_probe", whose model goes to
    `monitor`.

    Raises InvalidArgument when the configuration is wrong (nothing is constructed then), and UnsupportedError
    for a task that this version does not have.
    """

    _instance: ClassVar[PrecisionDebugger | None] = None
    _config: Config
    _feature: Feature

    def __new__(
        cls,
        config_path: str | os.PathLike[str] | None = None,
        task: str | None = None,
        dump_path: str | os.PathLike[str] | None = None,
        level: str | None = None,
        model: object = None,
        step: list[int | str] | None = None,
    ) -> PrecisionDebugger:
        if cls._instance is None:
            config = load_config(config_path, task=task, dump_path=dump_path, level=level, step=step)
            config = replace(config, dump_path=os.path.abspath(config.dump_path))  # os.chdir may come
            module, name = _FEATURES[config.task]
            self = super().__new__(cls)
            self._config = config
            self._feature = cast("Callable[..., Feature]", getattr(import_module(module), name))(
                config, model
            )
            call_at_exit(self._feature.close)
            PrecisionDebugger._instance = self
        return PrecisionDebugger._instance  # type: ignore[return-value]

    @classmethod
    def monitor(cls, model: object) -> None:
        """Task grad_probe: records the gradients of `model` (a torch.nn.Module, not a traced one) from the
        next optimizer step on; task monitor: what section `monitor` asks for. Call it when the model is
        complete: after DistributedDataParallel or fully_shard, before training.

        One model is watched at a time: the same model again changes nothing, another one takes its place.
        Raises InvalidArgument for anything but a module, and IoError when the dump path cannot be written.
        """
        cls._get("monitor")._feature.monitor(model)

    @classmethod
    def start(
        cls,
        model: object = None,
        token_range: list[int] | None = None,
        rank_id: int | None = None,
        scheduled_tokens: object = None,
    ) -> None:
        """Opens the collection of the current step, when the configuration wants it. Task grad_probe:
        nothing, steps are those of the optimizer; neither task monitor, whose first start() is monitor().

        model: what levels L0 and mix record, a torch.nn.Module or a list of them; wins over that of the
        constructor. The model of the first start() is recorded from then on.
        token_range: [first, last]: only these forward calls of the model are recorded, counted from 0 at
        start().
        rank_id, scheduled_tokens: keywords of the existing tool, without effect here, which a warning says.
        """
        for name, value in (("rank_id", rank_id), ("scheduled_tokens", scheduled_tokens)):
            if value is not None:
                log.warning("start: %s has no effect: %s", name, _IGNORED[name])
        cls._get("start")._feature.start(model, token_range)

    @classmethod
    def stop(cls) -> None:
        """Closes the collection: no hook is left, and what was recorded is written behind the training; it is
        complete when step() returns. start() may follow in the same step. Task grad_probe: returns when every
        step seen is on disk; the probe goes on.
        """
        cls._get("stop")._feature.stop()

    @classmethod
    def restore_api_dump(cls) -> None:
        """Takes every hook off torch, as stop() does; for scripts that never call stop()."""
        cls._get("restore_api_dump")._feature.restore_api_dump()

    @classmethod
    def forward_backward_dump_end(cls) -> None:
        """The old name of stop()."""
        cls.stop()

    @classmethod
    def step(cls) -> None:
        """Ends a step: returns when its files are complete. Names count from 0 again, in the next folder.
        Task grad_probe: nothing, steps are those of the optimizer.
        """
        cls._get("step")._feature.step()

    @classmethod
    def set_init_step(cls, step: int) -> None:
        """Gives the current step its number, an integer of 0 or more."""
        cls._get("set_init_step")._feature.set_init_step(step)

    @classmethod
    def save(cls, variable: Any, name: str, save_backward: bool = True) -> None:
        """Level debug: keeps a value (tensors, int, float, str, in lists, tuples and dicts), and with
        `save_backward` the gradients that its tensors get. Other levels and tasks: nothing.
        """
        cls._get("save")._feature.save(variable, name, save_backward)

    @classmethod
    def register_custom_api(cls, module: Any, api: str, api_prefix: str | None = None) -> None:
        """Records calls of `module.api`, too, as `{prefix}.{api}`; the prefix is that given, or the name of
        the module, or "Custom". Raises InvalidArgument where there is no such function.
        """
        cls._get("register_custom_api")._feature.register_custom_api(module, api, api_prefix)

    @classmethod
    def restore_custom_api(cls, module: Any, api: str) -> None:
        """Takes register_custom_api() back."""
        cls._get("restore_custom_api")._feature.restore_custom_api(module, api)

    @classmethod
    def _get(cls, method: str) -> PrecisionDebugger:
        if PrecisionDebugger._instance is None:
            raise InvalidArgument(
                "PrecisionDebugger instance is not created. Expected PrecisionDebugger(config_path) before "
                f"PrecisionDebugger.{method}()"
            )
        return PrecisionDebugger._instance

    @classmethod
    def _reset(cls) -> None:
        """For tests: closes the debugger of this process, so that another can be made."""
        if PrecisionDebugger._instance is not None:
            atexit.unregister(PrecisionDebugger._instance._feature.close)
            PrecisionDebugger._instance._feature.close()
            PrecisionDebugger._instance._feature.release()
            PrecisionDebugger._instance = None


def module_dump(module: object, dump_name: str) -> None:
    """Between start() and stop(): records this module alone, without what it calls, as
    `Module.{dump_name}.{Class}`, until module_dump_end(). Raises InvalidArgument for anything but a module
    and a name.
    """
    PrecisionDebugger._get("module_dump")._feature.module_dump(module, dump_name)


def module_dump_end() -> None:
    """Ends module_dump(): everything of the level is recorded again."""
    PrecisionDebugger._get("module_dump_end")._feature.module_dump_end()


def call_at_exit(close: Callable[[], None]) -> None:
    """Calls `close` when this process ends, while Python still works."""
    atexit.register(close)
    import multiprocessing.util

    if multiprocessing.parent_process() is not None:
        # A forked worker of multiprocessing leaves without atexit; this is what it runs instead.
        multiprocessing.util.Finalize(None, close, exitpriority=100)
