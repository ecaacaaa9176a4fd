# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What `msprobe run` and MSPROBE_CONFIG record of a training of a framework behind a port."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msprobe.dump.port_dump import PortDump
from msprobe.files.loss_files import own_file
from msprobe.files.run_folder import DUMP, GRADIENTS
from msprobe.frameworks.mindspore.mindspore_port import MindSporePort
from msprobe.grad_probe.port_probe import PortProbe
from msprobe.hooks.arming import when_imported
from msprobe.hooks.functions import Hooks
from msprobe.native import Error, log
from msprobe.recording.losses import LossFile, finish_losses
from msprobe.recording.recorded_training import Seen
from msprobe.recording.run_file import RunFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.frameworks.port import Port
    from msprobe.recording.settings import RunSettings

_RECORDED = ("losses", "gradients", "dump")


class PortRecording:
    """One run, from begin() to end(), as RunRecording is one of torch: nothing here raises.

    A step begins with the first call of a model whose gradients are wanted, and ends with an optimizer step
    behind which one is called again. The model is the outermost module with parameters in that call.
    """

    def __init__(
        self,
        settings: RunSettings,
        program: list[str],
        make_port: Callable[[], Port],
        started_as: list[str] | None = None,
    ) -> None:
        """program, started_as: see RunFile."""
        self._settings = settings
        self._program = program
        self._started_as = started_as
        self._make_port = make_port
        self._port: Port | None = None
        self._hooks = Hooks([])
        self._seen = Seen()
        self._file: RunFile | None = None
        self._recorded: dict[str, str] = {}
        self._dump: PortDump | None = None
        self._probe: PortProbe | None = None
        self._losses: LossFile | None = None
        self._values: list[Any] = []  # results of the differentiated calls of this step
        self._is_open = False  # between the first call of the model and the optimizer step
        self._is_inside = False  # of a differentiated call
        self._has_model = False  # this call has been seen to reach the model
        self._process = os.getpid()
        self._broken = False

    @property
    def has_seen_a_model(self) -> bool:
        return bool(self._seen.described)

    @property
    def summary(self) -> str:
        """After end(): what was recorded, in one line; empty: no model was seen, nobody knows why."""
        if not self.has_seen_a_model:
            why = self._port.why_not() if self._port is not None else ""
            return f"nothing is recorded of {self._port.package}: {why}" if self._port and why else ""
        steps = f"{self._seen.steps} step{'' if self._seen.steps == 1 else 's'}"
        parts = ", ".join(self._recorded) or "nothing"
        return (
            f"{steps} of {self._seen.described[0]['class']} seen; recorded: {parts}: {self._settings.output}"
        )

    def begin(self) -> None:
        """When the framework is there, and before the training."""
        try:
            self._port = self._make_port()
            self._hooks = Hooks(self._port.training(self))
            self._hooks.install()
        except Exception as error:
            self._break(error)

    def end(self, outcome: str) -> None:
        """Everything is on disk when it returns."""
        if os.getpid() != self._process:
            return
        self._hooks.remove()
        if self._is_open:
            self._seen.steps += 1
            self._guarded(self._write_losses)
        for part in (self._dump, self._probe, self._losses):
            if part is not None:
                self._guarded(part.close)
        self._recorded = {
            name: path for name, path in self._recorded.items() if (self._settings.output / path).exists()
        }
        if self._file is not None:
            if "losses" in self._recorded:
                count = self._port.world_size() if self._port is not None else None
                name = finish_losses(self._settings.output, self._file.rank, count or 1)
                self._recorded["losses"] = name
            try:
                self._file.write(outcome, self._seen, self._recorded)
            except Error as error:
                log.warning("%s", error)

    # ---- TrainingWatcher

    def differentiated(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._is_inside or self._broken or os.getpid() != self._process:
            return function(*args, **kwargs)
        self._is_inside, self._has_model = True, False
        try:
            result = function(*args, **kwargs)
        finally:
            self._is_inside = False
        if self._is_open and self._has_model:
            self._values.append(result)
        return result

    def module_call(self, module: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._broken or os.getpid() != self._process or (self._is_inside and self._has_model):
            return function(*args, **kwargs)
        assert self._port is not None
        if not self._is_inside and self._port.keeps_graph(module):
            return self.differentiated(lambda: self.module_call(module, function, args, kwargs), (), {})
        if self._is_inside:
            self._guarded(lambda: self._model_called(module))
        return function(*args, **kwargs)

    def optimizer_steps(self, optimizer: Any) -> None:
        if not self._is_open or self._broken:
            return
        self._guarded(lambda: self._before_update(optimizer))

    def optimizer_stepped(self, optimizer: Any) -> None:
        if self._is_open and not self._broken:
            self._is_open = False
            self._seen.steps += 1
            self._guarded(self._write_losses)

    # ---- the work

    def _model_called(self, module: Any) -> None:
        assert self._port is not None
        if not self._port.is_trained(module):
            return
        self._has_model = True
        if self._is_open:
            return
        if self._file is None:
            self._begin_recording(module)
        elif self._dump is not None:
            self._dump.step()
        self._is_open = True
        if self._dump is not None:
            self._dump.start(module)

    def _begin_recording(self, model: Any) -> None:
        assert self._port is not None
        settings = self._settings
        self._seen.described.append(self._port.described(model))
        self._file = RunFile(
            settings,
            self._program,
            self._started_as,
            framework=self._port.package,
            rank=self._port.rank() or 0,
        )
        left_out = [part for part in settings.parts if part not in _RECORDED]
        if left_out:
            self._seen.notes.append(f"not recorded of {self._port.package}: {', '.join(left_out)}")
        if "losses" in settings.parts:
            name = own_file(self._file.rank)
            self._recorded["losses"] = name
            self._losses = LossFile(settings.output / name)
        if settings.gradients is not None:
            self._recorded["gradients"] = GRADIENTS
            self._probe = PortProbe(settings.gradients, self._port)
        if settings.dump is not None:
            self._recorded["dump"] = DUMP
            self._dump = PortDump(settings.dump, self._port)
        self._file.write("running", self._seen, self._recorded)

    def _before_update(self, optimizer: Any) -> None:
        self._seen.optimizer_steps += 1
        name = type(optimizer).__name__
        if name not in self._seen.optimizers:
            self._seen.optimizers.append(name)
        if self._probe is not None and not self._probe.is_watching:
            self._probe.monitor(optimizer)
        if self._dump is not None:
            self._dump.stop()  # what the optimizer calls is none of the model's

    def _write_losses(self) -> None:
        values, self._values = self._values, []
        if self._losses is not None:
            assert self._port is not None
            numbers = [self._port.number(value) for value in values]
            self._losses.add(self._seen.steps - 1, [one for one in numbers if one is not None])

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._break(error)

    def _break(self, error: Exception) -> None:
        self._broken = True
        why = f"{type(error).__name__}: {error}"
        self._seen.notes.append(why)
        log.warning("the recording ends here: %s", why)


def mindspore_recording(
    settings: RunSettings, program: list[str], started_as: list[str] | None = None
) -> PortRecording:
    """Begins when the program imports MindSpore; nothing is imported for it."""
    recording = PortRecording(settings, program, MindSporePort, started_as)
    when_imported("mindspore", recording.begin)
    return recording
