# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TrainerMon of MindSpore trainings: the csv files of mindstudio-probe (docs/formats/monitor.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msprobe.compat.trainer_mon.names import Names, Targets
from msprobe.compat.trainer_mon.outputs import WORDS, CsvOutput, Task
from msprobe.compat.trainer_mon.run_folders import base_folder, new_folder
from msprobe.compat.trainer_mon.settings import chunks_of, number_or_default, read_settings
from msprobe.frameworks.mindspore import import_mindspore
from msprobe.frameworks.mindspore.mindspore_port import MindSporePort
from msprobe.native import core, log

if TYPE_CHECKING:
    from collections.abc import Callable

    from msprobe.hooks.functions import Removable

# Where optimizers keep their moments.
_MOMENTS = {
    "moment": ("moment1", "moments1", "moments", "exp_avg", "accum"),
    "second_moment": ("moment2", "moments2", "exp_avg_sq"),
}
_WITH_CALLS = ("activation", "activation_gradient")
# Keys of the file that MindSpore has not.
_NOT_HERE = (
    "print_struct",
    "ur_distribution",
    "mg_direction",
    "stack_info",
    "monitor_mbs_grad",
    "append_output",
)

Key = tuple[int, str]  # chunk, and what a row is about


class TrainerMon:
    """Records statistics of a training in PYNATIVE_MODE as its JSON file says. Raises TypeError and
    ValueError for wrong values, FormatError, IoError; UnsupportedError where MindSpore cannot be imported.

    process_group, params_have_main_grad: have no effect; gradients are those that the optimizer is given.
    """

    def __init__(
        self,
        config_file_path: str | os.PathLike[str],
        process_group: Any = None,
        params_have_main_grad: bool = True,
    ) -> None:
        self._port = MindSporePort()
        self._settings = read_settings(config_file_path)
        given = [key for key in _NOT_HERE if getattr(self._settings, key)]
        if self._settings.communication.enable:
            given.append("cc_distribution")
        if self._settings.rules:
            given.append("alert")
        if given:
            log.warning("%s: MindSpore has no %s: left out", config_file_path, ", ".join(given))
        if self._settings.format != "csv":
            log.warning('%s: "format": MindSpore has csv alone', config_file_path)
        self._folder = new_folder(base_folder(), self._port.rank() or 0)
        self._targets = Targets(self._settings.targets, squash=self._settings.squash_name)
        self._handles: list[Removable] = []
        self._session = core.MonitorSession(apart=True)
        self._labels: dict[Key, int] = {}
        self._tasks = {
            of: Task(*words, of in _WITH_CALLS, self._session.frame(of)) for of, words in WORDS.items()
        }
        self._output = CsvOutput(self._folder, self._settings, self._session.labels, qualifies_dtypes=False)
        self._parameters: dict[str, tuple[Key, Any]] = {}  # by MindSpore's name
        self._calls: dict[Key, int] = {}
        self._of_optimizer: list[str] = []
        self._optimizer: Any = None
        self._step = self._recorded = 0
        self._told: set[str] = set()

    def set_monitor(
        self,
        model: Any,
        optimizer: Any,
        grad_acc_steps: int = 1,
        tp_group: Any = None,
        dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:
        """Watches `model`, a Cell or a list of them, and the calls of `optimizer`. start_iteration: the
        number of the next step. tp_group, dp_group: have no effect.
        """
        chunks = chunks_of(model, import_mindspore().nn.Cell, "mindspore.nn.Cell")
        self._of_optimizer = self._port.names_of_gradients(optimizer)
        number_or_default(grad_acc_steps, "grad_acc_steps", 1, 1)  # warns; micro steps are counted
        self._step = number_or_default(start_iteration, "start_iteration", 0, 0)
        self._remove()
        self._optimizer = optimizer
        for number, chunk in enumerate(chunks):
            self._find_parameters(number, chunk)
            if self._settings.xy_distribution:
                self._watch_cells(number, chunk)
        steps = self._port.optimizer_steps(optimizer, self._guarded(self._measure_before))
        steps.install()
        self._handles.append(steps)
        self._handles.append(optimizer.register_forward_hook(self._after_update))
        known = [name for chunk in chunks for name, _ in chunk.cells_and_names()]
        self._targets.warn_of_unmatched([*known, *self._parameters])

    # ---- what is watched

    def _find_parameters(self, number: int, chunk: Any) -> None:
        names = Names(squash=self._settings.squash_name)
        for full_name, parameter in chunk.parameters_and_names():
            if not parameter.requires_grad or not self._targets.has_parameter(full_name, number):
                continue
            name = names.of(full_name)
            key = number, name
            self._parameters[parameter.name] = key, parameter
            if self._settings.wg_distribution:
                hook = self._guarded(
                    lambda gradient, key=key: self._measure("unreduced_gradient", key, gradient)
                )
                self._handles.append(self._port.on_gradient(parameter, hook))

    def _watch_cells(self, number: int, chunk: Any) -> None:
        names = Names(squash=self._settings.squash_name)
        for full_name, cell in chunk.cells_and_names():
            short = names.of(full_name)
            name = short if self._settings.all_xy else self._targets.module_name(full_name, number)
            if name is not None:
                hook = self._guarded(
                    lambda _, given, found, key=(number, name): self._called(key, given, found)
                )
                self._handles.append(cell.register_forward_hook(hook))

    def _remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()
        self._parameters.clear()

    @property
    def _wants(self) -> bool:
        is_over = self._recorded >= self._settings.collect_times
        ranks, rank = self._settings.module_ranks, self._port.rank()
        wants = self._settings.wants(self._step, self._settings.start_step)
        return not is_over and wants and (not ranks or rank in ranks)

    def _guarded(self, function: Callable[..., None]) -> Callable[..., None]:
        """A fault of ours never stops the training."""

        def call(*args: Any) -> None:
            try:
                if self._wants:
                    function(*args)
            except Exception as error:
                self._tell(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")

        return call

    def _tell(self, reason: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            log.warning("monitor: %s: training goes on", reason)

    # ---- values

    def _called(self, key: Key, given: Any, found: Any) -> None:
        micro = self._calls[key] = self._calls.get(key, -1) + 1
        settings = self._settings
        for place, value in (("input", given), ("output", found)):
            for index, tensor in enumerate(self._port.tensors_of(value)):
                about = key[0], f"{key[1]}.{place}" + (f"_{index}" if index else "")
                if not settings.backward_only:
                    self._measure("activation", about, tensor, micro)
                if not settings.forward_only and self._port.wants_gradient(tensor):
                    hook = self._guarded(
                        lambda gradient, about=about: self._measure(
                            "activation_gradient", about, gradient, micro
                        )
                    )
                    self._port.on_gradient(tensor, hook)

    def _measure_before(self, gradients: Any) -> None:
        settings = self._settings
        if settings.wg_distribution:
            self._measure_all("gradient", gradients)
        if settings.mv_distribution:
            for of, attributes in _MOMENTS.items():
                found = (getattr(self._optimizer, attribute, None) for attribute in attributes)
                self._measure_all(of, next((one for one in found if isinstance(one, (list, tuple))), ()))
        self._measure_parameters("weight_before")

    def _measure_all(self, of: str, tensors: Any) -> None:
        """One for each parameter of the optimizer."""
        for name, tensor in zip(self._of_optimizer, tensors):
            if name in self._parameters:
                self._measure(of, self._parameters[name][0], tensor)

    def _measure_parameters(self, of: str) -> None:
        if self._settings.param_distribution:
            for key, parameter in self._parameters.values():
                self._measure(of, key, parameter)

    def _measure(self, of: str, about: Key, tensor: Any, micro: int = -1) -> None:
        if about not in self._labels:
            self._labels[about] = self._session.labels.add(*about)
        label, view = self._labels[about], self._port.view(tensor)
        self._session.frame(of).add_tensor(label, view, micro, self._settings.eps)

    # ---- a step

    def _after_update(self, *_: Any) -> None:
        self._guarded(self._end_step)()
        self._session.drop_rows()
        self._calls.clear()
        self._step += 1

    def _end_step(self) -> None:
        self._measure_parameters("weight")
        self._recorded += 1
        for task in self._tasks.values():
            if len(task.frame) > 0:
                self._output.write(task, [], self._step)
