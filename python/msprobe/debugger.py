# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""PrecisionDebugger: the one object a training script talks to."""

from __future__ import annotations

import atexit
import os
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from msprobe.config import Config, load_config, read_file
from msprobe.files.ranges import numbers
from msprobe.native import Error, InvalidArgument, UnsupportedError, log
from msprobe.recording.telling import tell
from msprobe.training.process_end import call_at_exit

if TYPE_CHECKING:
    from collections.abc import Callable


class WatchesModel(Protocol):
    """A task that looks at a model at each step of its optimizer, from monitor() or start() on."""

    def monitor(self, model: object) -> None: ...

    def start(self, model: object = None) -> None: ...

    def stop(self) -> None: ...

    def close(self) -> None:
        """Takes every hook off, and returns when everything seen so far is on disk."""

    def release(self) -> None:
        """After close(): lets the model go, where the process goes on.

        Not at the end of the process: the last reference to a model of DistributedDataParallel ends its
        process group, which waits, holding Python's lock, for threads that may wait for that lock.
        """


class WatchesCalls(Protocol):
    """A task that looks at the calls between start() and stop(). close() and release(): as above."""

    def start(self, model: object = None, token_range: list[int] | None = None) -> None: ...

    def stop(self) -> None: ...

    def step(self) -> None: ...

    def set_init_step(self, step: int) -> None: ...

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None: ...

    def register_custom_api(self, module: Any, api: str, prefix: str) -> None: ...

    def restore_custom_api(self, module: Any, api: str) -> None: ...

    def module_dump(self, module: object, name: str) -> None: ...

    def module_dump_end(self) -> None: ...

    def restore_api_dump(self) -> None: ...

    def close(self) -> None: ...

    def release(self) -> None: ...


def _grad_probe(config: Config, model: object) -> WatchesModel:
    from msprobe.grad_probe.probe import Probe

    return Probe(config)


def _monitor(config: Config, model: object) -> WatchesModel:
    from msprobe.training_monitor import MonitorTask

    return MonitorTask(config, model)


def _dump(config: Config, model: object) -> WatchesCalls:
    from msprobe.dump.data_dump import DataDump

    return DataDump(config, model)


# Found by name, as a command is: nothing uses the floor for compatibility.
_FREE_BENCHMARK = "msprobe.compat.free_benchmark.benchmark"


def free_benchmark(config: Config, model: object = None) -> Any:
    """Task free_benchmark, which `msprobe run` has, too."""
    return import_module(_FREE_BENCHMARK).FreeBenchmark(config)


class _Switch:
    """Key `dump_enable` of a file, which somebody may change while the training runs."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else os.path.abspath(path)
        self._stamp: object = None
        self._is_on = True
        if self._path is not None and "dump_enable" not in read_file(self._path):
            self._path = None

    def is_on(self) -> bool:
        if self._path is None:
            return True
        try:
            found = os.stat(self._path)
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
            if stamp != self._stamp:
                value = read_file(self._path).get("dump_enable", True)
                if not isinstance(value, bool):
                    raise InvalidArgument(f'"dump_enable": expected true or false, found {value!r}')
                self._stamp, self._is_on = stamp, value
        except (Error, OSError) as error:  # half written, perhaps: the next start() looks again
            log.warning("start: dump_enable stays %s: %s", str(self._is_on).lower(), error)
        return self._is_on


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

    # Task -> what does it. A call that is of the other kind does nothing.
    _of_model: ClassVar[dict[str, Callable[[Config, object], WatchesModel]]] = {
        "grad_probe": _grad_probe,
        "monitor": _monitor,
    }
    _of_calls: ClassVar[dict[str, Callable[[Config, object], WatchesCalls]]] = {
        "free_benchmark": free_benchmark,
        **dict.fromkeys(("statistics", "tensor", "structure", "overflow_check"), _dump),
    }
    _instance: ClassVar[PrecisionDebugger | None] = None
    _config: Config
    _model: WatchesModel | None
    _calls: WatchesCalls | None
    _switch: _Switch

    def __new__(
        cls,
        config_path: str | os.PathLike[str] | None = None,
        task: str | None = None,
        dump_path: str | os.PathLike[str] | None = None,
        level: str | None = None,
        model: object = None,
        step: list[int | str] | None = None,
    ) -> PrecisionDebugger:
        given = (config_path, task, dump_path, level, model, step)
        if cls._instance is not None and any(one is not None for one in given):
            log.warning(
                "PrecisionDebugger: there is one in this process already, which is returned; its "
                "configuration stays (task %s, dump_path %s) until the process ends",
                cls._instance._config.task,
                cls._instance._config.dump_path,
            )
        if cls._instance is None:
            config = load_config(config_path, task=task, dump_path=dump_path, level=level, step=step)
            config = replace(config, dump_path=os.path.abspath(config.dump_path))  # os.chdir may come
            self = super().__new__(cls)
            self._config = config
            of_model, of_calls = cls._of_model.get(config.task), cls._of_calls.get(config.task)
            if of_model is None and of_calls is None:
                known = ", ".join((*cls._of_model, *cls._of_calls))
                raise UnsupportedError(f'"task": expected {known} with {cls.__module__}, found {config.task}')
            self._model = of_model(config, model) if of_model else None
            self._calls = of_calls(config, model) if of_calls else None
            self._switch = _Switch(config_path)
            call_at_exit(self._close)
            PrecisionDebugger._instance = self
            steps = numbers("step", config.steps) if config.steps else "all steps"
            what = f"task {config.task}" if of_model else f"task {config.task}, level {config.level}, {steps}"
            tell(f"PrecisionDebugger: {what}: {config.dump_path}")
        return PrecisionDebugger._instance  # type: ignore[return-value]

    @classmethod
    def monitor(cls, model: object) -> None:
        """Task grad_probe: records the gradients of `model` (a torch.nn.Module, not a traced one) from the
        next optimizer step on; task monitor: what section `monitor` asks for. Call it when the model is
        complete: after DistributedDataParallel or fully_shard, before training.

        One model is watched at a time: the same model again changes nothing, another one takes its place.
        Raises InvalidArgument for anything but a module, and IoError when the dump path cannot be written.
        """
        if task := cls._get("monitor")._model:
            task.monitor(model)

    @classmethod
    def start(
        cls,
        model: object = None,
        token_range: list[int] | None = None,
        rank_id: int | None = None,
        scheduled_tokens: object = None,
    ) -> None:
        """Opens the collection of the current step, when the configuration wants it and its `dump_enable` is
        not false now. Task grad_probe:
        nothing, steps are those of the optimizer; neither task monitor, whose first start() is monitor().

        model: what levels L0 and mix record, a torch.nn.Module or a list of them; wins over that of the
        constructor. The model of the first start() is recorded from then on.
        token_range: [first, last]: only these forward calls of the model are recorded, counted from 0 at
        start().
        rank_id, scheduled_tokens: keywords of mindstudio-probe, without effect here, which a warning says.
        """
        for name, value in (("rank_id", rank_id), ("scheduled_tokens", scheduled_tokens)):
            if value is not None:
                log.warning("start: %s has no effect: %s", name, _IGNORED[name])
        debugger = cls._get("start")
        if not debugger._switch.is_on():
            return
        if debugger._calls:
            debugger._calls.start(model, token_range)
        elif debugger._model:
            debugger._model.start(model)

    @classmethod
    def stop(cls) -> None:
        """Closes the collection: no hook is left, and what was recorded is written behind the training; it is
        complete when step() returns. start() may follow in the same step. Task grad_probe: returns when every
        step seen is on disk; the probe goes on.
        """
        cls._get("stop")._task.stop()

    @classmethod
    def restore_api_dump(cls) -> None:
        """Takes every hook off torch, as stop() does; for scripts that never call stop()."""
        if task := cls._get("restore_api_dump")._calls:
            task.restore_api_dump()

    @classmethod
    def forward_backward_dump_end(cls) -> None:
        """The old name of stop()."""
        cls.stop()

    @classmethod
    def step(cls) -> None:
        """Ends a step: returns when its files are complete. Names count from 0 again, in the next folder.
        Task grad_probe: nothing, steps are those of the optimizer.
        """
        if task := cls._get("step")._calls:
            task.step()

    @classmethod
    def set_init_step(cls, step: int) -> None:
        """Gives the current step its number, an integer of 0 or more."""
        if task := cls._get("set_init_step")._calls:
            if isinstance(step, bool) or not isinstance(step, int) or step < 0:
                raise InvalidArgument(f"set_init_step: expected an integer of 0 or more, found {step!r}")
            task.set_init_step(step)

    @classmethod
    def save(cls, variable: Any, name: str, save_backward: bool = True) -> None:
        """Level debug: keeps a value (tensors, int, float, str, in lists, tuples and dicts), and with
        `save_backward` the gradients that its tensors get. Other levels and tasks: nothing.
        """
        if task := cls._get("save")._calls:
            task.save(variable, name, save_backward)

    @classmethod
    def register_custom_api(cls, module: Any, api: str, api_prefix: str | None = None) -> None:
        """Records calls of `module.api`, too, as `{prefix}.{api}`; the prefix is that given, or the name of
        the module, or "Custom". Raises InvalidArgument where there is no such function.
        """
        if task := cls._get("register_custom_api")._calls:
            if not callable(getattr(module, api, None)):
                raise InvalidArgument(f"register_custom_api: {module!r} has no function {api!r}")
            prefix = api_prefix or getattr(module, "__name__", "Custom").rpartition(".")[2]
            task.register_custom_api(module, api, prefix)

    @classmethod
    def restore_custom_api(cls, module: Any, api: str) -> None:
        """Takes register_custom_api() back."""
        if task := cls._get("restore_custom_api")._calls:
            task.restore_custom_api(module, api)

    def _close(self) -> None:
        """At the end of the process."""
        self._task.close()
        there = os.path.isdir(self._config.dump_path) and os.listdir(self._config.dump_path)
        said = "ended; its files are in" if there else "ended, and recorded nothing: nothing is in"
        tell(f"PrecisionDebugger: {said} {self._config.dump_path}")

    @property
    def _task(self) -> WatchesModel | WatchesCalls:
        task = self._calls or self._model
        assert task is not None
        return task

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
            task = PrecisionDebugger._instance._task
            atexit.unregister(PrecisionDebugger._instance._close)
            task.close()
            task.release()
            PrecisionDebugger._instance = None


def module_dump(module: object, dump_name: str) -> None:
    """Between start() and stop(): records this module alone, without what it calls, as
    `Module.{dump_name}.{Class}`, until module_dump_end(). Raises InvalidArgument for anything but a module
    and a name.
    """
    if task := PrecisionDebugger._get("module_dump")._calls:
        task.module_dump(module, dump_name)


def module_dump_end() -> None:
    """Ends module_dump(): everything of the level is recorded again."""
    if task := PrecisionDebugger._get("module_dump_end")._calls:
        task.module_dump_end()
