# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""TrainerMon: the monitor of mindstudio-probe, under its names and with its files (docs/monitor.md)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.compat.trainer_mon.adhoc import AdhocValues
from msprobe.compat.trainer_mon.anomaly_rules import Place
from msprobe.compat.trainer_mon.outputs import TensorBoardOutput
from msprobe.compat.trainer_mon.run import EndOfTraining, Job, TrainerRun
from msprobe.compat.trainer_mon.run_folders import base_folder, folders_between, new_folder
from msprobe.compat.trainer_mon.settings import (
    checked_ops,
    chunks_of,
    number_or_default,
    read_content,
    read_settings,
    settings_of,
    switch_dynamic_off,
)
from msprobe.native import Error, InvalidArgument, import_torch, log
from msprobe.training.optimizer_step import OptimizerStep

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msprobe.compat.trainer_mon.settings import TrainerSettings

DYNAMIC_VARIABLE = "DYNAMIC_MONITOR"


class TrainerMon:
    """Records statistics of a training as its JSON file says.

    config_file_path: docs/formats/monitor.md has the keys. Raises TypeError and ValueError for wrong values,
        FormatError, and IoError.
    process_group: of the pipeline stages, for records of anomalies.
    params_have_main_grad: gradients are in `parameter.main_grad`, as Megatron keeps them; plain torch needs
        False.
    opt_ty: has no effect.
    """

    def __init__(
        self,
        config_file_path: str | os.PathLike[str],
        process_group: Any = None,
        params_have_main_grad: bool = True,
        opt_ty: object = None,
    ) -> None:
        import_torch()
        self._path = config_file_path
        self._main_grad = params_have_main_grad
        self._settings = read_settings(config_file_path)
        self._dynamic = os.environ.get(DYNAMIC_VARIABLE, "").lower() == "true"
        self._place = _place(process_group)
        self._base = base_folder()
        self._folder = self._run_folder()
        self._optimizer_given: Any = None
        self._job: Job | None = None
        self._steps: OptimizerStep | None = None
        self._run: TrainerRun | None = None
        self._step = 0
        self._seen_change = 0.0  # of the file, when it was last looked at
        self._adhoc = AdhocValues()
        self._last_values: dict[str, dict[str, dict[str, Any]]] = {}
        if self._dynamic:
            log.warning(
                "%s is set: recording begins when %s has dynamic_on and is changed",
                DYNAMIC_VARIABLE,
                self._path,
            )

    # ---- the interface of mindstudio-probe

    @property
    def ops(self) -> list[str]:
        """The statistics that are recorded; may be set at any time."""
        return list(self._settings.ops)

    @ops.setter
    def ops(self, value: Sequence[str]) -> None:
        self._settings = replace(self._settings, ops=checked_ops(value))
        if self._run is not None:
            self._run.set_ops(self._settings.ops)

    @property
    def summary_writer(self) -> Any:
        """With format tensorboard torch's SummaryWriter; otherwise an object that can be closed."""
        output = self._run.output if self._run is not None else None
        return output.writer if isinstance(output, TensorBoardOutput) else output

    def set_monitor(
        self,
        model: Any,
        optimizer: Any,
        grad_acc_steps: int = 1,
        tp_group: Any = None,
        dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:
        """Watches `model`, a module or a list of them (chunks of a pipeline), and the steps of `optimizer`.

        grad_acc_steps: micro batches of a step. tp_group, dp_group: what all processes of these have is
        recorded by the first. start_iteration: the number of the next step.
        """
        grad_acc_steps = number_or_default(grad_acc_steps, "grad_acc_steps", 1, 1)
        self._step = number_or_default(start_iteration, "start_iteration", 0, 0)
        chunks = chunks_of(model, import_torch().nn.Module, "torch.nn.Module")
        if not callable(getattr(optimizer, "step", None)):
            raise InvalidArgument(
                f"set_monitor: expected an optimizer with a method step, found {type(optimizer).__name__}"
            )
        self._end()
        if self._steps is not None:
            self._steps.remove()
        self._job = self._make_job(chunks, optimizer, grad_acc_steps, tp_group, dp_group)
        self._steps = OptimizerStep(optimizer, self._before_update, self._after_update)
        self._steps.install()
        if not self._dynamic:
            self._begin(self._settings, start=self._settings.start_step)

    def set_wrapped_optimizer(self, optimizer: Any) -> None:
        """The optimizer for monitor_gnorm_with_ad()."""
        self._optimizer_given = optimizer

    def monitor_gnorm_with_ad(
        self,
        model: Any,
        optimizer: Any = None,
        grad_acc_steps: int = 1,
        tp_group: Any = None,
        dp_group: Any = None,
        start_iteration: int = 0,
    ) -> None:
        """The old name of set_monitor()."""
        optimizer = optimizer if optimizer is not None else self._optimizer_given
        if optimizer is None:
            log.error("monitor_gnorm_with_ad: expected an optimizer, or set_wrapped_optimizer() before")
            return
        self.set_monitor(model, optimizer, grad_acc_steps, tp_group, dp_group, start_iteration)

    def generate_wgrad_metrics(
        self, post_grad_dict: object = None
    ) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """`{tag: {op: value}}` of the gradients of the latest step, as the optimizer got them and before they
        were reduced. `post_grad_dict` has no effect.
        """
        if not self._settings.wg_distribution:
            return {}, {}
        return self._values("gradient"), self._values("unreduced_gradient")

    def generate_xy_metrics(self) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """`{tag: {op: value}}` of activations and their gradients: of the step that runs, and behind the
        optimizer of the one that has ended.
        """
        return self._values("activation"), self._values("activation_gradient")

    def reload_xy(self, xy_distribution: bool = False) -> None:
        """Switches the recording of activations. Deprecated: DYNAMIC_MONITOR does it for all kinds."""
        log.warning("reload_xy() is deprecated: use %s", DYNAMIC_VARIABLE)
        self._change(xy_distribution=bool(xy_distribution))

    def adhoc_check(
        self,
        target_tensor: Any,
        module_name: str,
        tensor_name: str,
        rank_list: Sequence[int],
        ops_list: Sequence[str],
    ) -> None:
        """Format tensorboard: norm, max, min and mean of any tensor, written at the end of the step."""
        if _distributed() and rank_list and self._place.rank not in rank_list:
            return
        rank = self._place.rank if _distributed() else None
        self._adhoc.add(target_tensor, module_name, tensor_name, rank, ops_list)

    # ---- the steps

    def _before_update(self) -> None:
        self._guarded("measuring", lambda run: run.before_update(self._step))

    def _after_update(self) -> None:
        self._guarded("recording", self._end_step)
        self._step += 1
        if self._dynamic:
            self._look_for_change()
        self._guarded("the next step", lambda run: run.begin_step(self._step))

    def _end_step(self, run: TrainerRun) -> None:
        if run.settings.format == "api":
            self._last_values = {
                of: run.values(of)
                for of in ("activation", "activation_gradient", "gradient", "unreduced_gradient")
            }
        run.after_update(self._step)
        if isinstance(run.output, TensorBoardOutput):
            self._adhoc.write(run.output)
        if run.is_over:
            self._finish()

    def _guarded(self, doing: str, work: Callable[[TrainerRun], None]) -> None:
        """What goes wrong in here ends the monitor, and not the training."""
        if self._run is None:
            return
        try:
            work(self._run)
        except EndOfTraining:
            raise
        except Exception as error:
            log.error(
                "monitor: step %d: %s: %s: %s: nothing more is recorded",
                self._step,
                doing,
                type(error).__name__,
                error,
            )
            self._end()

    # ---- configurations

    def _begin(self, settings: TrainerSettings, start: int) -> None:
        assert self._job is not None
        self._settings = settings
        self._run = TrainerRun(settings, self._job, start)
        self._run.install()
        self._run.begin_step(self._step)

    def _end(self) -> None:
        if self._run is not None:
            run, self._run = self._run, None
            run.remove()

    def _change(self, **changes: Any) -> None:
        """Other settings from now on; numbers of the step that runs are dropped."""
        self._settings = replace(self._settings, **changes)
        if self._run is not None:
            start = self._settings.start_step
            self._end()
            self._begin(self._settings, start)

    def _finish(self) -> None:
        if self._dynamic:
            try:
                switch_dynamic_off(self._path)
                self._seen_change = os.path.getmtime(self._path)
                log.info("monitor: all wanted steps are recorded; %s has dynamic_on false now", self._path)
            except (Error, OSError) as error:
                log.warning("monitor: dynamic_on of %s cannot be set to false: %s", self._path, error)
        else:
            log.info("monitor: all wanted steps are recorded")
        self._end()

    def _look_for_change(self) -> None:
        """A changed file with dynamic_on begins anew with the next step; a wrong one is reported."""
        try:
            changed = _change_time(self._path)
            if changed == self._seen_change:
                return
            self._seen_change = changed
            content = read_content(self._path)
            if content.get("dynamic_on") is not True:
                return
            settings = settings_of(content, os.fspath(self._path))
        except (Error, OSError, TypeError, ValueError) as error:
            log.error("monitor: the changed configuration is ignored: %s", error)
            return
        log.warning("monitor: the configuration has changed: recording begins at step %d", self._step)
        self._end()
        try:
            self._begin(settings, start=self._step)
        except Exception as error:
            log.error("monitor: the changed configuration is ignored: %s", error)
            self._end()

    # ---- where things are

    def _values(self, of: str) -> dict[str, dict[str, Any]]:
        current = self._run.values(of) if self._run is not None else {}
        return current or self._last_values.get(of, {})

    def _run_folder(self) -> Path:
        times = self._settings.append_output
        if times and _distributed():
            found = folders_between(self._base, *times).get(self._place.rank)
            if found is not None:
                log.info("monitor: the record in %s is continued", found)
                return found
            log.warning(
                "monitor: no folder of rank %d in %s lies in %s", self._place.rank, self._base, list(times)
            )
        return new_folder(self._base, self._place.rank)

    def _make_job(
        self, chunks: tuple[Any, ...], optimizer: Any, micro_steps: int, tp_group: Any, dp_group: Any
    ) -> Job:
        ranks = self._settings.module_ranks
        if ranks and not _distributed():
            log.warning(
                '"module_ranks" is given, but torch.distributed is not initialised: nothing is recorded'
            )
        return Job(
            chunks=chunks,
            optimizer=optimizer,
            micro_steps=micro_steps,
            main_grad=self._main_grad,
            tp_group=tp_group,
            dp_group=dp_group,
            place=self._place,
            base=self._base,
            folder=self._folder,
            writes=not ranks or (_distributed() and self._place.rank in ranks),
            tells=not _distributed() or self._place.rank == (min(ranks) if ranks else 0),
        )


def _change_time(path: str | os.PathLike[str]) -> float:
    """-1 for a file that is not there: its absence is told once, when it is read."""
    try:
        return os.path.getmtime(path)
    except OSError:
        return -1.0


def _distributed() -> bool:
    from torch import distributed

    return distributed.is_available() and distributed.is_initialized()


def _place(process_group: Any) -> Place:
    if not _distributed():
        return Place()
    from torch import distributed

    group: Any = (
        process_group
        if isinstance(process_group, distributed.ProcessGroup)
        else distributed.GroupMember.WORLD
    )
    rank = distributed.get_rank()
    return Place(
        rank, distributed.get_group_rank(group, rank), tuple(distributed.get_process_group_ranks(group))
    )
