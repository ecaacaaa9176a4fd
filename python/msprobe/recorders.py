# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What `msprobe run`, `msprobe.capture` and MSPROBE_CONFIG record: each feature as a Recorder."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from msprobe.files.loss_files import own_file
from msprobe.files.regular_file import open_to_read
from msprobe.files.run_folder import CONFIG_PACK, DUMP, FREE_BENCHMARK, GRADIENTS, MONITOR, PERTURB
from msprobe.native import Error, core, log
from msprobe.recording.losses import LossRecorder, finish_losses
from msprobe.recording.recorded_training import RecordedTraining
from msprobe.recording.recorder import QuietRecorder
from msprobe.recording.run_file import RunFile, processes_of_job, rank_of_process
from msprobe.training.model_parts import unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from msprobe.config import Config
    from msprobe.config_check.checker import ConfigChecker
    from msprobe.dump.data_dump import DataDump
    from msprobe.grad_probe.probe import Probe
    from msprobe.perturb.recorder import Perturbation
    from msprobe.recording.called_models import TrainedModels
    from msprobe.recording.recorder import Recorder
    from msprobe.recording.settings import RunSettings
    from msprobe.training_monitor import Monitoring

_MOST_STEPS_OF_CONFIG = 10
_MOST_CALLEES = 3  # that are named


class RunRecording:
    """One run of a training in this process, from begin() to end(). Apart from wrong settings, which
    run_settings() refuses, nothing here raises: a fault becomes a note in run.rank{R}.json and a warning.

    program: what is run, the words behind `python`.
    models: those to record; None: they are found.
    shows_progress, junit: of a perturbation. beside: makes recorders that stand before all others.
    started_as: the words of `msprobe run` in front of those of the program, without the folder and the steps.
    """

    def __init__(
        self,
        settings: RunSettings,
        program: list[str],
        models: list[Any] | None = None,
        *,
        shows_progress: bool = False,
        junit: bool = False,
        beside: Callable[[], list[Recorder]] = list,
        started_as: list[str] | None = None,
    ) -> None:
        self._settings = settings
        self._beside = beside
        self._shows_progress = shows_progress
        self._junit = junit
        self.perturbation: Perturbation | None = None
        """What was perturbed, when something was."""
        self.benchmark: _FreeBenchmark | None = None
        """The free benchmark, when there is one."""
        self._program = program
        self._started_as = started_as
        self._session = RecordedTraining(self._make_recorders, models, settings.steps, self._make_early)
        self._file: RunFile | None = None
        self._recorded: dict[str, str] = {}
        self._dump: _Dump | None = None
        self._early_dump: _Dump | None = None
        self._begun = False
        self._counts_random_calls = False
        self._process = os.getpid()
        self._summary = ""

    @property
    def summary(self) -> str:
        """After end(): what was recorded, in one line; empty: nothing was begun."""
        return self._summary

    @property
    def recorded(self) -> dict[str, str]:
        """After end(): the parts that are on disk, and their paths in the folder of the run."""
        return dict(self._recorded)

    def _told(self) -> str:
        seen = self._session.seen
        if not self._begun:
            if self._file is None:
                return "no training with torch was seen: nothing was recorded"
            return f"recorded: nothing: {self._settings.output}"
        if not seen.models:
            return (
                "no model was trained in this process, so nothing was recorded: steps are seen at an "
                "optimizer of torch.optim (else use PrecisionDebugger), and MSPROBE_CONFIG records other "
                "processes"
            )
        if self._file is None:
            return f"nothing is recorded: {seen.notes[-1] if seen.notes else 'no step began'}"
        parts = ", ".join(self._recorded) or "nothing"
        steps = f"{seen.steps} step{'' if seen.steps == 1 else 's'}"
        model = type(unwrapped(seen.models[0])).__name__
        said = f"{steps} of {model} seen; recorded: {parts}: {self._settings.output}"
        if seen.optimizer_steps == 0:  # from the first call of the model to the end of the program
            said += "; no optimizer of torch.optim ended a step (PrecisionDebugger marks steps by hand)"
        return said + _forward_only(seen.forward_only)

    def begin(self) -> None:
        """When torch is there, and before the training."""
        try:
            if "config" in self._settings.parts:
                from msprobe.config_check.checker import ConfigChecker

                ConfigChecker.apply_patches()
                self._counts_random_calls = True
            self._session.install()
            self._begun = True
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            log.warning("nothing is recorded: %s", why)
            self._session.close()
            self._session.seen.notes.append(why)
            with contextlib.suppress(Error):
                self._file = RunFile(self._settings, self._program, self._started_as)

    def end(self, outcome: str, *, always: bool = False) -> None:
        """Everything is on disk when it returns.

        outcome: how the program ended. always: whether a run without a model leaves its file, too.
        """
        if os.getpid() != self._process:
            return
        self._session.close()
        self._recorded = {part: path for part, path in self._recorded.items() if self._is_there(part, path)}
        if self._file is not None and "losses" in self._recorded:
            folder, rank = self._settings.output, self._file.rank
            self._recorded["losses"] = finish_losses(folder, rank, processes_of_job())
        self._summary = self._told()
        if self._counts_random_calls:
            from msprobe.config_check.checker import ConfigChecker

            ConfigChecker.remove_patches()
        try:
            if self._file is None and always and not self._session.seen.notes:
                self._session.seen.notes.append("no model was called in training")
                self._file = RunFile(self._settings, self._program, self._started_as)
            if self._file is not None:
                self._file.write(outcome, self._session.seen, self._recorded)
        except Error as error:
            log.warning("%s", error)

    def release(self) -> None:
        """After end(): lets go of the models, as release() of a task does, where the process goes on."""
        self._session.forget_models()
        if self._dump is not None:
            self._dump.release()

    def _is_there(self, part: str, path: str) -> bool:
        """Whether anything was recorded of a part; a note says why it was not. The others are always written,
        but by another rank, it may be.
        """
        place = self._settings.output / path
        if part == "losses":
            return _has_rows(place)
        if part == "gradients":
            return any(map(_has_gradients, place.glob("rank*")))
        return part not in ("dump", "monitor", "perturb", "free_benchmark") or place.exists()

    # ---- recorders

    def _make_recorders(self) -> list[Recorder]:
        """In the order in which they are asked: what is installed on top is taken off first."""
        self._file = self._file or RunFile(self._settings, self._program, self._started_as)
        self._recorded.clear()
        result: list[Recorder] = []
        try:
            self._add_recorders(result, self._file)
        except Exception:  # the session takes all of them or none
            for recorder in reversed(result):
                with contextlib.suppress(Exception):  # the first error is told
                    recorder.close()
            self._recorded.clear()
            raise
        self._file.write("running", self._session.seen, self._recorded)
        return result

    def _make_early(self) -> list[Recorder]:
        if self._settings.dump is None or _debugger_dumps():
            return []
        self._early_dump = self._new_dump(self._settings.dump)
        return [self._early_dump]

    def _new_dump(self, config: Config) -> _Dump:
        return _Dump(config, self._session.models, waits_once=self._tells_cost())

    def _tells_cost(self) -> bool:
        return self._shows_progress and rank_of_process() == 0

    def _add_recorders(self, result: list[Recorder], file: RunFile) -> None:
        result += self._beside()
        if "losses" in self._settings.parts:
            name = own_file(file.rank)
            self._recorded["losses"] = name
            result.append(_Losses(self._settings, name))
        if "config" in self._settings.parts:
            self._recorded["config"] = CONFIG_PACK
            result.append(_ConfigCheck(self._settings, self._session.models))
        if self._settings.gradients is not None:
            self._recorded["gradients"] = GRADIENTS
            result.append(_Gradients(self._settings.gradients))
        if self._settings.dump is not None:
            early, self._early_dump = self._early_dump, None
            if _debugger_dumps():
                self._note("the script has a PrecisionDebugger of its own: its dump is left to that")
                if early is not None:
                    early.close()
            else:
                self._recorded["dump"] = DUMP
                self._dump = early or self._new_dump(self._settings.dump)
                result.append(self._dump)
        if self._tells_cost() and (self._dump is not None or self._settings.gradients is not None):
            result.append(_Cost(self._settings, file.rank))
        if self._settings.monitor is not None:
            self._recorded["monitor"] = MONITOR
            result.append(_Monitor(self._settings.monitor, self._settings.last_step if self._dump else -1))
        if self._settings.free_benchmark is not None:
            self._recorded["free_benchmark"] = FREE_BENCHMARK
            self.benchmark = _FreeBenchmark(self._settings.free_benchmark)
            result.append(self.benchmark)
        if self._settings.perturb:
            from msprobe.perturb.recorder import Perturbation

            place = f"{PERTURB}/rank{file.rank}" if processes_of_job() > 1 else PERTURB
            self._recorded["perturb"] = place
            self.perturbation = Perturbation(
                self._settings.output / place,
                self._settings.perturb,
                self._settings.steps,
                shows_progress=self._shows_progress,
                junit=self._junit,
            )
            result.append(self.perturbation)

    def _note(self, text: str) -> None:
        self._session.seen.notes.append(text)
        log.info("%s", text)


def _forward_only(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    said = [
        f"{one['calls']} call{'s' * (one['calls'] != 1)} of {one['model']}" for one in rows[:_MOST_CALLEES]
    ]
    more = [f"{len(rows) - _MOST_CALLEES} more models"] if len(rows) > _MOST_CALLEES else []
    return f"; forward only: {', '.join(said + more)}"


class _Losses(QuietRecorder):
    name = "losses"

    def __init__(self, settings: RunSettings, name: str) -> None:
        self._losses = LossRecorder(settings.output / name)
        self._losses.install()

    def drop_step(self, step: int) -> None:
        self._losses.drop_step()

    def end_step(self, step: int) -> None:
        self._losses.end_step(step)

    def close(self) -> None:
        self._losses.close()


class _Gradients(QuietRecorder):
    """Steps are those of the optimizer, which the probe counts itself."""

    name = "gradient probe"

    def __init__(self, config: Config) -> None:
        self._config = config
        self._probe: Probe | None = None

    def models_found(self, models: list[Any]) -> None:
        from msprobe.grad_probe.probe import Probe

        if self._probe is not None:  # a second model: no step has been recorded yet
            self._probe.close()
        self._probe = Probe(self._config)
        self._probe.monitor(unwrapped(models[0]) if len(models) == 1 else _together(models), models)

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()


class _Dump(QuietRecorder):
    name = "data dump"

    def __init__(self, config: Config, trained: TrainedModels, *, waits_once: bool) -> None:
        """waits_once: the files of the first recorded step are there before the second one."""
        from msprobe.dump.data_dump import DataDump

        self._dump: DataDump = DataDump(
            config,
            waits=False,
            entrances=trained.entrances,
            averaged=trained.averaged,
            only_evidence=True,
        )
        self._trained = trained
        self._models: list[Any] = []
        self._start: Any = None  # what the dump begins with; it is given the same at each step
        self._begun = False
        self._dropped = -1  # step
        self._waits = waits_once
        self._steps = config.steps

    def models_found(self, models: list[Any]) -> None:
        if not self._begun:
            self._models = list(models)
            called = [self._trained.as_called(model) for model in models]
            self._start = called[0] if len(called) == 1 else called
            return
        for name, model in _named(models).items():
            if not any(model is known for known in self._models):
                self._models.append(model)
                self._dump.watch_also(model, name)

    def prepare_step(self, step: int) -> None:
        self._dump.prepare(step)

    def set_aside(self, is_aside: bool) -> None:
        self._dump.set_preparation_aside(is_aside)

    def begin_step(self, step: int) -> None:
        if self._begun and step != self._dropped:
            # Here, not at end_step: backward and clipping of the step are over for sure.
            was_recorded = not self._steps or step - 1 in self._steps
            self._dump.step(waits=self._waits and was_recorded)
            self._waits = self._waits and not was_recorded
        self._begun, self._dropped = True, -1
        self._dump.start(self._start)

    def called_beside(self, name: str, module: Any) -> None:
        if self._dump.watch_also(module, name):
            self._models.append(module)

    def drop_step(self, step: int) -> None:
        self._dump.drop_step()
        self._dropped = step

    def discard(self) -> None:
        self._dump.drop_step()
        self.close()
        self.release()

    def end_step(self, step: int) -> None:
        self._dump.stop()

    def close(self) -> None:
        self._dump.close()

    def release(self) -> None:
        self._models, self._start = [], None
        self._dump.release()


class _Cost(QuietRecorder):
    """Stands behind what it counts, so that this has ended the step before."""

    name = "cost of a step"

    def __init__(self, settings: RunSettings, rank: int) -> None:
        self._settings = settings
        self._rank = rank
        self._is_told = False

    def begin_step(self, step: int) -> None:
        steps = self._settings.steps
        if self._is_told or step == 0 or (steps and step - 1 not in steps):
            return
        from msprobe.recording.cost import cost_of

        self._is_told = True
        processes = processes_of_job()
        cost = cost_of(self._settings.output, self._rank, step - 1, processes)
        sentence = cost.sentence(len(steps), processes)
        print(f"msprobe: {sentence}", file=sys.stderr, flush=True)


class _FreeBenchmark(QuietRecorder):
    name = "free benchmark"

    def __init__(self, config: Config) -> None:
        from msprobe.debugger import free_benchmark

        self._benchmark = free_benchmark(config)
        self._begun = False

    @property
    def exit_code(self) -> int:
        """After close(): 0 all calls are consistent, 1 some are not, 2 none was made again."""
        return 1 if self._benchmark.inconsistent else 0 if self._benchmark.checked else 2

    @property
    def sentence(self) -> str:
        return (
            f"{self._benchmark.checked} calls were made again, {self._benchmark.inconsistent} results are "
            "inconsistent"
        )

    def begin_step(self, step: int) -> None:
        if self._begun:
            self._benchmark.step()  # here, not at end_step: the backward of the step is over for sure
        self._begun = True
        self._benchmark.start()

    def end_step(self, step: int) -> None:
        self._benchmark.stop()

    def close(self) -> None:
        self._benchmark.close()


class _Monitor(QuietRecorder):
    """Steps are those of the optimizers, which the monitor finds itself."""

    name = "monitor"

    def __init__(self, config: Config, last_dumped: int | None) -> None:
        """last_dumped: last step of the run's own dump, beside which no alarm can have another; -1: there is
        none, None: it takes all.
        """
        self._config = config
        self._last_dumped = last_dumped
        self._monitoring: Monitoring | None = None

    def models_found(self, models: list[Any]) -> None:
        from msprobe.training_monitor import Monitoring

        self.close()  # a second model: no step has been recorded yet
        self._monitoring = Monitoring(self._config, models, [], dumps_after=self._last_dumped)

    def close(self) -> None:
        if self._monitoring is not None:
            self._monitoring.close()
            self._monitoring = None


class _ConfigCheck(QuietRecorder):
    """The checker has hooks of its own on the model."""

    name = "config check"

    def __init__(self, settings: RunSettings, trained: TrainedModels) -> None:
        self._path = settings.output / CONFIG_PACK
        self._trained = trained
        last = settings.last_step
        steps = _MOST_STEPS_OF_CONFIG if last is None else last + 1
        self._steps = max(1, min(steps, _MOST_STEPS_OF_CONFIG))
        self._checker: ConfigChecker | None = None

    def models_found(self, models: list[Any]) -> None:
        from msprobe.config_check.checker import ConfigChecker

        if self._checker is None:
            self._checker = ConfigChecker(
                models[0],
                output_zip_path=str(self._path),
                steps=self._steps,
                called=self._trained.entrance,
            )

    def close(self) -> None:
        if self._checker is not None:
            self._checker.close()


def _has_gradients(rank: Path) -> bool:
    try:
        return core.has_gradients(rank)
    except Error:
        return False


def _has_rows(table: Path) -> bool:
    """Below its header."""
    try:
        with open_to_read(table) as file:
            return len(file.read(4096).splitlines()) > 1
    except OSError:
        return False


def _together(models: list[Any]) -> Any:
    """One module that holds all; it changes nothing in them."""
    import torch

    return torch.nn.ModuleDict({name: unwrapped(model) for name, model in _named(models).items()})


def _named(models: list[Any]) -> dict[str, Any]:
    """By their classes, in the order in which they were called first."""
    names: dict[str, Any] = {}
    for model in models:
        name = type(unwrapped(model)).__name__
        number = sum(known.rpartition("_")[0] == name or known == name for known in names)
        names[name if number == 0 else f"{name}_{number}"] = model
    return names


def _debugger_dumps() -> bool:
    from msprobe.debugger import PrecisionDebugger

    debugger = PrecisionDebugger._instance
    return debugger is not None and debugger._config.task != "grad_probe"
