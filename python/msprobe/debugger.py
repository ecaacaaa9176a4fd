# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PrecisionDebugger: the one object a training script talks to."""

from __future__ import annotations

import atexit
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from msprobe.config import Config, load_config
from msprobe.native import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable


class Feature(Protocol):
    """What the debugger needs of the feature that does the configured task."""

    def monitor(self, model: object) -> None: ...

    def flush(self) -> None:
        """Returns when everything seen so far is on disk."""

    def close(self) -> None:
        """Takes every hook off and flushes."""


# Task -> the class that does it; a module is imported when its task is configured.
_FEATURES = {
    "grad_probe": ("msprobe.grad_probe.probe", "Probe"),
}


class PrecisionDebugger:
    """Watches a training run as a configuration says.

    There is one debugger in a process: a second construction returns the first object and ignores its
    arguments. All methods may be called on the class, from any file.

    config_path: a config.json (docs/formats/config.md). Without it every key has its default.
    task, dump_path, level, step: win over the same keys of the file. That holds for task "grad_probe", too,
        where the existing tool ignores `task` and `dump_path` given here.
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
            module, name = _FEATURES[config.task]
            self = super().__new__(cls)
            self._config = config
            self._feature = cast("Callable[[Config], Feature]", getattr(import_module(module), name))(config)
            _call_at_exit(self._feature.close)
            PrecisionDebugger._instance = self
        return PrecisionDebugger._instance  # type: ignore[return-value]

    @classmethod
    def monitor(cls, model: object) -> None:
        """Task grad_probe: records the gradients of `model` (a torch.nn.Module, not a traced one) from the
        next optimizer step on. Call it when the model is complete: after DistributedDataParallel or
        fully_shard, before training.

        One model is watched at a time: the same model again changes nothing, another one takes its place.
        Raises InvalidArgument for anything but a module, and IoError when the dump path cannot be written.
        """
        cls._get("monitor")._feature.monitor(model)

    @classmethod
    def start(cls, model: object = None, token_range: list[int] | None = None) -> None:
        """Opens the collection of a step. Task grad_probe: nothing, steps are those of the optimizer."""
        cls._get("start")

    @classmethod
    def stop(cls) -> None:
        """Closes the collection of a step. Task grad_probe: returns when every step seen is on disk; the
        probe goes on.
        """
        cls._get("stop")._feature.flush()

    @classmethod
    def forward_backward_dump_end(cls) -> None:
        """The old name of stop()."""
        cls.stop()

    @classmethod
    def step(cls) -> None:
        """Ends a step. Task grad_probe: nothing, steps are those of the optimizer."""
        cls._get("step")

    @classmethod
    def save(cls, variable: Any, name: str, save_backward: bool = True) -> None:
        """Level debug: keeps a value. Task grad_probe: nothing."""
        cls._get("save")

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
            PrecisionDebugger._instance = None


def _call_at_exit(close: Callable[[], None]) -> None:
    """Calls `close` when this process ends, while Python still works."""
    atexit.register(close)
    import multiprocessing.util

    if multiprocessing.parent_process() is not None:
        # A forked worker of multiprocessing leaves without atexit; this is what it runs instead.
        multiprocessing.util.Finalize(None, close, exitpriority=100)
