# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What TrainerMon does with one configuration, from its first hook to its last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from msprobe.compat.trainer_mon.anomaly_rules import Place, Rules
from msprobe.compat.trainer_mon.communication import CommunicationWatch
from msprobe.compat.trainer_mon.heat_maps import HeatMap, adam_update
from msprobe.compat.trainer_mon.names import Names, Targets, chunk_modules
from msprobe.compat.trainer_mon.outputs import (
    WORDS,
    ApiOutput,
    CsvOutput,
    Output,
    Tags,
    Task,
    TensorBoardOutput,
)
from msprobe.compat.trainer_mon.structure import Stacks, Structure
from msprobe.compat.trainer_mon.unreduced import UnreducedGradients
from msprobe.engines import is_cut_by_megatron
from msprobe.hooks.modules import ModuleCalls, ModuleHooks
from msprobe.monitoring.anomalies import AnomalyFile
from msprobe.monitoring.optimizers import view_of
from msprobe.native import core, log, torch_adapter

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from msprobe.compat.trainer_mon.settings import TrainerSettings
    from msprobe.monitoring.optimizers import Moments


class EndOfTraining(Exception):
    """What print_struct and cc_log_only end a training with."""


@dataclass(frozen=True)
class Job:
    """What is watched, and where it goes."""

    chunks: tuple[nn.Module, ...]
    optimizer: Any
    micro_steps: int
    main_grad: bool
    tp_group: Any
    dp_group: Any
    place: Place
    base: Path
    folder: Path
    writes: bool  # whether this process records anything
    tells: bool  # whether it is the one to say what all have in common


@dataclass(frozen=True)
class Parameter:
    """A parameter that is a target."""

    name: str
    label: int
    tensor: Any
    is_duplicate: bool  # another process of its group records its gradient


class TrainerRun:
    """Hooks, measurements and files of one configuration."""

    def __init__(self, settings: TrainerSettings, job: Job, start: int) -> None:
        self.settings = settings
        self.recorded = 0
        self._job = job
        self._start = start
        self._session = core.MonitorSession(apart=True)
        self._calls = self._session.calls
        self._tags = Tags(self._session.labels, job.place.rank)
        self._meter: Any = torch_adapter().MonitorMeter(eps=settings.eps, powers=False)
        micro_steps = {"activation", "activation_gradient"}
        if settings.monitor_mbs_grad:
            micro_steps.add("unreduced_gradient")
        self._tasks = {
            of: Task(tag, file, of in micro_steps, self._session.frame(of))
            for of, (tag, file) in WORDS.items()
        }
        self._rules = {name: Rules(settings.rules, settings.numbers) for name in self._tasks}
        self._targets = Targets(settings.targets, squash=settings.squash_name)
        self._parameters: list[Parameter] = []
        self._modules: Any = None
        self._module_hooks: ModuleCalls | None = None
        self._unreduced: UnreducedGradients | None = None
        self._communication: CommunicationWatch | None = None
        self._structure: Structure | None = None
        self._stacks: Stacks | None = None
        self._heat_maps: dict[tuple[str, str], HeatMap] = {}
        self._view = view_of(job.optimizer, main_grad=job.main_grad)
        self.output: Output = self._make_output()
        self._anomalies = (
            AnomalyFile(job.base, job.place.rank) if settings.dump_anomalies and job.writes else None
        )

    # ---- hooks

    def install(self) -> None:
        self._find_parameters()
        self._watch_modules()
        if self.settings.wg_distribution:
            self._unreduced = UnreducedGradients(
                [(one.label, one.tensor) for one in self._parameters],
                self._tasks["unreduced_gradient"],
                self._meter,
                self._calls,
                micro_steps=self._job.micro_steps,
                main_grad=self._job.main_grad,
                each_micro_step=self.settings.monitor_mbs_grad,
            )
            self._unreduced.install(self._job.chunks)
        if self.settings.communication.enable:
            self._communication = CommunicationWatch(
                self.settings.communication, self.settings.numbers, self._meter
            )
            if self._job.writes:
                self._communication.install()
        self._warn_of_unmatched_targets()

    def remove(self) -> None:
        self._record_modules(False)
        if self._modules is not None:
            self._modules.forget_modules()
        for watch in (self._unreduced, self._communication, self._structure, self._stacks):
            if watch is not None:
                watch.remove()
        self.output.close()

    def set_ops(self, ops: tuple[str, ...]) -> None:
        """Other statistics from the step on that runs: all of them were measured."""
        self.settings = replace(self.settings, ops=ops)
        self._rules = {name: Rules(self.settings.rules, self.settings.numbers) for name in self._tasks}
        if self._communication is not None:
            self._communication.set_numbers(self.settings.numbers)
        self.output.close()
        self.output = self._make_output()

    def begin_step(self, step: int) -> None:
        """Before the forward of a step."""
        wanted = self._wants(step)
        self._record_modules(wanted)
        if self._unreduced is not None:
            self._unreduced.set_recording(wanted)

    def _record_modules(self, wanted: bool) -> None:
        if self._modules is None or len(self._modules) == 0:
            return
        if self._module_hooks is None:
            hooks = ModuleHooks(self._modules.before_module, self._modules.after_module)
            self._module_hooks = ModuleCalls(hooks, self._modules.module_call)
            self._module_hooks_on = False
        if wanted != self._module_hooks_on:
            self._module_hooks_on = wanted
            self._modules.set_recording(wanted)
            if wanted:
                self._module_hooks.install()
            else:
                self._module_hooks.remove()

    def _wants(self, step: int) -> bool:
        return self._job.writes and self.settings.wants(step, self._start)

    def _find_parameters(self) -> None:
        settings, job = self.settings, self._job
        for chunk, module in enumerate(job.chunks):
            names = Names(squash=settings.squash_name)
            for full_name, tensor in module.named_parameters():
                if not tensor.requires_grad or not self._targets.has_parameter(full_name, chunk):
                    continue
                name = names.of(full_name)
                label = self._session.labels.add(chunk, name)
                duplicate = _is_duplicate(tensor, job.tp_group, job.dp_group)
                self._parameters.append(Parameter(f"{chunk}:{name}", label, tensor, duplicate))

    def _watch_modules(self) -> None:
        settings = self.settings
        if not self._job.writes:
            return
        wants_values = settings.xy_distribution and not settings.print_struct
        self._modules = torch_adapter().MonitorModules(
            self._meter,
            self._calls,
            self._session.labels,
            self._session.frame("activation"),
            self._session.frame("activation_gradient"),
            measure_forward=not settings.backward_only,
            measure_backward=not settings.forward_only,
            positional_gradients=True,
            micro_steps=self._job.micro_steps,
        )
        if settings.print_struct:
            self._structure = Structure()
        if settings.stack_info:
            self._stacks = Stacks()
        count = 0
        for chunk, module in enumerate(self._job.chunks):
            names = Names(squash=settings.squash_name)
            for full_name, part in chunk_modules(module):
                short = names.of(full_name)
                everything = settings.all_xy or settings.print_struct
                name = short if everything else self._targets.module_name(full_name, chunk)
                if self._stacks is not None:
                    self._stacks.watch(part, f"{chunk}:{short}")
                if name is None:
                    continue
                count += 1
                if self._structure is not None:
                    self._structure.watch(part, f"{chunk}:{name}")
                elif wants_values and not (settings.forward_only and settings.backward_only):
                    self._modules.watch(part, chunk, name)
        for watch in (self._structure, self._stacks):
            if watch is not None:
                watch.install()
        log.info("monitor: %d modules and %d parameters are targets", count, len(self._parameters))

    def _warn_of_unmatched_targets(self) -> None:
        known: list[str] = []
        for module in self._job.chunks:
            known += [name for name, _ in module.named_modules()]
            known += [name for name, _ in module.named_parameters()]
        self._targets.warn_of_unmatched(known)

    def _make_output(self) -> Output:
        settings, job = self.settings, self._job
        if not job.writes or settings.format == "api":
            return ApiOutput()
        if settings.format == "tensorboard":
            return TensorBoardOutput(job.folder, settings)
        return CsvOutput(job.folder, settings, self._session.labels)

    # ---- a step

    def before_update(self, step: int) -> None:
        """When the gradients are complete. Raises EndOfTraining."""
        if self._structure is not None and self._structure.found:
            self._end_with_structure()
        if self._communication is not None and self.settings.communication.log_only and step > 0:
            self._end_with_stacks()
        if not self._wants(step):
            return
        self._measure_gradients()
        moments = self._moments()
        self._measure_moments(moments)
        if self.settings.param_distribution:
            self._measure_parameters("weight_before")
        self._measure_direction(step, moments)
        self._measure_communication()

    def after_update(self, step: int) -> None:
        """When the optimizer has stepped: everything of the step is on disk when this returns."""
        if self._modules is not None:
            self._modules.end_step()
        if not self._wants(step):
            self._drop()
            return
        if self.settings.param_distribution:
            self._measure_parameters("weight")
        for task in self._tasks.values():
            task.frame.complete()  # waits for what was measured on a device
        self._session.frame("activation").sort(self._session.labels)
        self._session.frame("activation_gradient").sort()
        self.recorded += 1
        self._write(step)
        self._drop()

    @property
    def is_over(self) -> bool:
        return self.recorded >= self.settings.collect_times

    def values(self, of: str) -> dict[str, dict[str, Any]]:
        """`{tag: {op: value}}` of what was measured of a quantity so far, as format api hands it out."""
        task, ops = self._tasks[of], list(self.settings.ops)
        task.frame.complete()
        return {
            tag: {op: _as_torch(op, value) for op, value in zip(ops, values)}
            for tag, (_, _, values) in zip(self._tags.of(task), task.frame.values(ops))
        }

    def _measure(self, of: str, labels: list[int], tensors: list[Any]) -> None:
        if labels:
            self._meter.measure(self._session.frame(of), labels, tensors, self._calls)

    def _measure_gradients(self) -> None:
        if not self.settings.wg_distribution:
            return
        labels, tensors = [], []
        for one in self._parameters:
            if one.is_duplicate or not self._view.keeps(one.tensor):
                continue
            gradient = self._view.gradient(one.tensor)
            if gradient is None or gradient.numel() == 0:
                log.debug("grad is None: %s", one.name)
                continue
            labels.append(one.label)
            tensors.append(gradient)
        self._measure("gradient", labels, tensors)

    def _moments(self) -> list[tuple[Parameter, Moments]]:
        settings = self.settings
        if not (settings.mv_distribution or settings.ur_distribution or settings.mg_direction):
            return []
        return [(one, self._view.moments(one.tensor)) for one in self._parameters]

    def _measure_moments(self, moments: list[tuple[Parameter, Moments]]) -> None:
        if self.settings.mv_distribution:
            for quantity, place in (("moment", "first"), ("second_moment", "second")):
                found = [(one.label, getattr(of, place)) for one, of in moments]
                found = [(label, tensor) for label, tensor in found if tensor is not None]
                self._measure(quantity, [label for label, _ in found], [tensor for _, tensor in found])
        if self.settings.ur_distribution:
            for one, of in moments:
                pair = adam_update(of)
                for kind, values in zip(("adam_update", "adam_ratio"), pair or ()):
                    self._heat_maps.setdefault((one.name, kind), HeatMap()).add(values)

    def _measure_parameters(self, of: str) -> None:
        kept = [one for one in self._parameters if one.tensor.numel() > 0]
        self._measure(of, [one.label for one in kept], [one.tensor for one in kept])

    def _measure_direction(self, step: int, moments: list[tuple[Parameter, Moments]]) -> None:
        """Share of the elements whose gradient and first moment agree in sign; 1 at step 0."""
        if not self.settings.mg_direction:
            return
        gradients = [(one, self._view.gradient(one.tensor), of.first) for one, of in moments]
        gradients = [entry for entry in gradients if entry[1] is not None]
        pairs = self._meter.pairs(
            [gradient for _, gradient, _ in gradients], [first for _, _, first in gradients]
        )
        frame = self._session.frame("gradient_moment")
        for (one, _, first), (count, *_, balance) in zip(gradients, pairs):
            if first is None and step > 0:
                continue
            share = 1.0 if step == 0 else (balance / count + 1) / 2 if count else 0.0
            frame.add_value(one.label, share, self._calls.next(), self.settings.eps)

    def _measure_communication(self) -> None:
        if self._communication is None:
            return
        frame = self._session.frame("communication")
        for name, place, numbers in self._communication.take():
            frame.add_numbers(self._tags.of_collective(name, place), numbers, self._calls.next())

    def _write(self, step: int) -> None:
        anomalies = []
        all_ = self._session.labels.all()
        for name, task in self._tasks.items():
            if len(task.frame) == 0:
                continue
            tags = self._tags.of(task)
            stages = [all_[label][0] for label, _, _ in task.frame.values([])]
            anomalies += self._rules[name].check(task.frame, tags, stages, step, self._job.place)
            self.output.write(task, tags, step)
        if anomalies:
            more = f", and {len(anomalies) - 1} more" if len(anomalies) > 1 else ""
            log.warning("%s%s", anomalies[0].message, more)
        if self._anomalies is not None:
            self._anomalies.add(anomalies)
        self._write_heat_maps(step)
        if self._stacks is not None:
            if self._job.writes and self.settings.format != "api":
                self._stacks.write(self._job.folder / "stack_info.csv")
            self._stacks.remove()
            self._stacks = None

    def _write_heat_maps(self, step: int) -> None:
        if isinstance(self.output, TensorBoardOutput):
            for (name, kind), heat_map in self._heat_maps.items():
                tag = f"{name}/rank{self._job.place.rank}/{kind}"
                self.output.add_image(tag, heat_map.image(step), step)

    def _drop(self) -> None:
        self._session.drop_rows()
        if self._unreduced is not None:
            self._unreduced.end_step()
        if self._communication is not None and not self.settings.communication.log_only:
            for _ in self._communication.take():
                pass

    def _end_with_structure(self) -> None:
        assert self._structure is not None
        if self._job.tells:
            self._structure.write(self._job.base / "module_struct.json")
            log.info("%s is written", self._job.base / "module_struct.json")
        self._structure.remove()
        self._structure = None
        if not self.settings.communication.log_only:
            raise EndOfTraining("exit after first monitor step when print model struct")

    def _end_with_stacks(self) -> None:
        assert self._communication is not None
        if self._job.tells:
            log.info("communication of the first step, with its callers:")
            log.info("%s", self._communication.stacks_as_json())
        raise EndOfTraining("exit after first step when print cc stack")


def _is_duplicate(parameter: Any, tp_group: Any, dp_group: Any) -> bool:
    from torch import distributed

    in_every_process = tp_group is not None and not is_cut_by_megatron(parameter)
    if in_every_process and distributed.get_rank(group=tp_group) != 0:
        return True
    return dp_group is not None and distributed.get_rank(group=dp_group) != 0


def _as_torch(op: str, value: Any) -> Any:
    import torch

    if isinstance(value, float) or op not in ("shape", "dtype"):
        return torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float64)
    return torch.Size(value) if op == "shape" else getattr(torch, value.rpartition(".")[2])
