# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""msprobe.monitor: the monitor of a training, in one line."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config import (
    Config,
    DumpConfig,
    MonitorConfig,
    check_keys,
    did_you_mean,
    keys_of,
    load_config,
    read_file,
    words_of,
)
from msprobe.monitoring.monitor import Monitor
from msprobe.monitoring.sinks import CallbackSink
from msprobe.monitoring.steps import OptimizerSteps
from msprobe.native import InvalidArgument, import_torch, log
from msprobe.recording.telling import tell
from msprobe.training.optimizer import optimizers_of, steps_behind
from msprobe.training.process_end import call_at_exit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.monitoring.alarms import Alarm

DEFAULT_OUTPUT = "./msprobe_monitor"


def monitor(
    model: Any,
    optimizer: Any = None,
    output: str | os.PathLike[str] | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    callback: Callable[..., Any] | None = None,
    rule: Callable[..., Any] | None = None,
    group: Any = None,
    **settings: Any,
) -> Monitoring:
    """Records what a training does, step by step: `msprobe.monitor(model, optimizer)` before the first step.

    model: a torch.nn.Module or a list of them, complete: behind DistributedDataParallel or fully_shard.
    optimizer: an optimizer or a list of them; a step ends when each has stepped. None: those that have
        parameters of the model are found.
    output: folder of the record; without it the `dump_path` of the configuration, else ./msprobe_monitor.
    config: config.json or config.yaml with a section `monitor`.
    callback: called as `callback(numbers, step=step)` with the numbers of each recorded step by their keys,
        as `wandb.log` takes them. The first error ends it.
    rule: a rule of your own beside those of `rules`: `rule(numbers, step=step)` returns the key of the series
        that is wrong, several keys, or None. The first error ends it.
    group: the processes that step together, a group of torch.distributed with this one in it; None: all.
        Each group has a record of its own, which is monitor.rank{first}.db where process 0 is not among them.
    settings: keys of the section `monitor`, which win over the file: `every=10`, `quantities=["all"]`.
        docs/monitor.md has them all.

    In several processes each of the group must call this at the same place. Returns the monitor, which ends
    with the process, with close(), or as a context manager. Raises InvalidArgument for wrong arguments, and
    IoError where the folder cannot be written; later nothing of it stops the training.
    """
    models = _modules(model)
    optimizers = _optimizers(optimizer)
    for name, function in (("callback", callback), ("rule", rule)):
        if function is not None and not callable(function):
            raise InvalidArgument(
                f"monitor: {name}: expected a function of (numbers, step), found {type(function).__name__}"
            )
    loaded = monitor_config(config, output, settings)
    assert isinstance(loaded.section, MonitorConfig)
    return Monitoring(loaded, models, optimizers, callback, rule, members=_members_of(group), tells=True)


class Monitoring:
    """A monitor that runs."""

    def __init__(
        self,
        config: Config,
        models: Sequence[Any],
        optimizers: Sequence[Any],
        callback: Callable[..., Any] | None = None,
        rule: Callable[..., Any] | None = None,
        *,
        members: Sequence[int] | None = None,
        dumps_after: int | None = -1,
        tells: bool = False,
    ) -> None:
        """optimizers: empty: those that have parameters of the models. members: the processes whose values
        are put together; None: all. dumps_after: the steps of this process up to this one have a dump
        already; None: all of them. tells: where it writes, at the start and the end.
        """
        self._tells = tells
        self._closed = False
        assert isinstance(config.section, MonitorConfig)
        settings = config.section
        folder = Path(config.dump_path).absolute()
        self._dumps: ArmedDumps | None = None
        if settings.alarm.dump and dumps_after is not None:
            self._dumps = ArmedDumps(folder / "dump", settings, models, dumps_after + 1)
        self._monitor = Monitor(
            settings,
            folder,
            members=members,
            ranks=config.ranks,
            steps=config.steps,
            sinks=[] if callback is None else [CallbackSink(callback)],
            rules=[] if rule is None else [rule],
            on_alarm=None if self._dumps is None else self._dumps.arm,
            on_step_end=None if self._dumps is None else self._dumps.step_ended,
        )
        optimizers = optimizers or optimizers_of(models)
        start = settings.start if settings.start is not None else steps_behind(optimizers)
        self._monitor.begin(models, start)
        self._steps = OptimizerSteps(self._monitor, optimizers, models)
        self._steps.install()
        if tells:
            tell(f"monitor: records {', '.join(settings.quantities)} of every step: {self.output}")
        call_at_exit(self.close)

    def __repr__(self) -> str:
        state = "ended" if self._closed else "runs"
        return f"<msprobe.monitor: step {self.step}, {state}: {self.output}>"

    @property
    def output(self) -> Path:
        return self._monitor.output

    @property
    def step(self) -> int:
        """The number of the step that runs."""
        return self._monitor.step

    def add(self, name: str, value: float) -> None:
        """A number of your own, as the loss of an evaluation: "custom/{name}" of the step that runs."""
        self._monitor.add(name, value)

    def close(self) -> None:
        """Ends the record: no hook is left, and everything is on disk."""
        if not self._closed and self._tells:
            tell(f"monitor: {self.step} steps: {self.output}")
        self._closed = True
        self._steps.remove()
        self._monitor.close()
        if self._dumps is not None:
            self._dumps.close()

    def __enter__(self) -> Monitoring:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ArmedDumps:
    """Records the step behind an alarm in full, as a data dump: evidence without anybody awake."""

    def __init__(self, folder: Path, settings: MonitorConfig, models: Sequence[Any], waits: int) -> None:
        """waits: so many steps have to be over."""
        self._folder = folder
        self._task = settings.alarm.dump_task
        self._left = settings.alarm.most_dumps
        self._models = list(models)
        self._dump: Any = None
        self._armed = False
        self._running = False
        self._waits = waits

    def arm(self, alarm: Alarm) -> None:
        if self._left > 0 and not self._running and self._waits <= 0:
            self._armed = True

    def step_ended(self, step: int) -> None:
        self._waits -= 1
        try:
            if self._running:
                self._running = False
                self._dump.stop()
                self._dump.step()
                log.warning("monitor: step %d is recorded in full: %s", step, self._folder / f"step{step}")
            if self._armed:
                self._armed = False
                self._left -= 1
                self._begin(step + 1)
        except Exception as error:
            log.warning("monitor: the dump of an alarm: %s: %s", type(error).__name__, error)
            self._running = self._armed = False
            self._left = 0

    def _begin(self, step: int) -> None:
        from msprobe.dump.data_dump import DataDump

        if self._dump is None:
            config = load_config(None, task=self._task, dump_path=self._folder, level="mix")
            assert isinstance(config.section, DumpConfig)
            section = replace(config.section, diagnosis=words_of("diagnosis"))
            self._dump = DataDump(replace(config, section=section))
        self._dump.set_init_step(step)
        self._dump.start(self._models[0] if len(self._models) == 1 else self._models)
        self._running = True

    def close(self) -> None:
        if self._dump is not None:
            self._dump.close()


class MonitorTask:
    """Task "monitor" of PrecisionDebugger: begins with monitor(model) or the first start()."""

    def __init__(self, config: Config, model: object = None) -> None:
        self._config = config
        self._model = model
        self._monitoring: Monitoring | None = None
        self._of: object = None

    def monitor(self, model: object) -> None:
        if self._monitoring is not None:
            if model is self._of:
                return
            self._monitoring.close()
        self._monitoring = Monitoring(self._config, _modules(model), [])
        self._of = model

    def start(self, model: object = None) -> None:
        if self._monitoring is None:
            chosen = self._model if model is None else model
            if chosen is None:
                raise InvalidArgument('task "monitor": expected a model in start(model), found none')
            self.monitor(chosen)

    def stop(self) -> None:
        """Nothing: every step of the training is looked at."""

    def close(self) -> None:
        if self._monitoring is not None:
            self._monitoring.close()

    def release(self) -> None:
        self._model = self._of = self._monitoring = None


def _members_of(group: Any) -> list[int] | None:
    """The processes of a group, in their order. Raises InvalidArgument."""
    if group is None:
        return None
    distributed = import_torch().distributed
    # new_group() gives processes outside of the group something else.
    if not distributed.is_available() or not isinstance(group, distributed.ProcessGroup):
        raise InvalidArgument(
            "monitor: group: expected a process group of torch.distributed that this process is in, found "
            f"{type(group).__name__}"
        )
    return sorted(distributed.get_process_group_ranks(group))


def monitor_config(
    config: str | os.PathLike[str] | None,
    output: str | os.PathLike[str] | None,
    settings: dict[str, Any],
) -> Config:
    """The configuration of a file, with the settings given here. Raises InvalidArgument."""
    content: dict[str, Any] = {} if config is None else read_file(config)
    folder = output or content.get("dump_path") or DEFAULT_OUTPUT
    loaded = load_config(config, task="monitor", dump_path=folder)
    known = keys_of("monitor")
    for key in settings:
        if key not in known:
            hint = did_you_mean(key, known) or f"expected one of {', '.join(known)}"
            raise InvalidArgument(f"monitor(): there is no setting {key!r}: {hint}")
    of_file = content.get("monitor") or {}
    return replace(loaded, section=check_keys("monitor()", "monitor", {**of_file, **settings}))


def _modules(model: Any) -> list[Any]:
    torch = import_torch()
    models = list(model) if isinstance(model, (list, tuple)) else [model]
    for one in models:
        if not isinstance(one, torch.nn.Module):
            raise InvalidArgument(
                f"monitor: expected a torch.nn.Module or a list of them, found {type(one).__name__}"
            )
    if not models:
        raise InvalidArgument("monitor: expected a torch.nn.Module, found an empty list")
    return models


def _optimizers(optimizer: Any) -> list[Any]:
    if optimizer is None:
        return []
    optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    for one in optimizers:
        if not callable(getattr(one, "step", None)):
            raise InvalidArgument(
                f"monitor: expected an optimizer with a method step, found {type(one).__name__}"
            )
    return optimizers
