# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The monitor of a training: steps, what is measured in them, and where it goes."""

from __future__ import annotations

import datetime
import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.engines import COMPILED
from msprobe.files.credentials import concealed_tree
from msprobe.monitoring.alarms import FILE as ALARMS
from msprobe.monitoring.alarms import Alarms, rules_of
from msprobe.monitoring.communication import CommunicationRows
from msprobe.monitoring.layers import PlainNames
from msprobe.monitoring.module_rows import ModuleRows
from msprobe.monitoring.parameter_rows import ParameterRows, is_wanted, parameters_of, spectra
from msprobe.monitoring.quantities import check_metrics, quantity
from msprobe.monitoring.sinks import CsvSink, Sinks, TensorBoardSink
from msprobe.monitoring.store_files import record_name
from msprobe.monitoring.training_numbers import TrainingNumbers
from msprobe.monitoring.whole_tensors import WholeTensors, peers_of, share_parameters
from msprobe.native import __version__, core, log, torch_adapter
from msprobe.terminal.close_names import close_to
from msprobe.training.model_parts import chain, named_modules, named_parameters, parts_of, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from msprobe._core import MonitorFrame, MonitorSession
    from msprobe.config import MonitorConfig
    from msprobe.monitoring.alarms import Alarm
    from msprobe.monitoring.sinks import Sink
    from msprobe.monitoring.training_numbers import Losses


_Number = tuple[str, str, str, float]  # quantity, metric, name, value


@dataclass
class _EndedStep:
    """A recorded step that is over; what was measured on a device may still be there."""

    step: int
    rows: MonitorFrame
    losses: Losses
    given: list[_Number]  # by the user
    numbers: list[_Number] = field(default_factory=list)

    def bring(self) -> None:
        self.rows.bring()
        self.losses.bring()

    def is_complete(self) -> bool:
        return self.rows.is_complete() and self.losses.is_complete()

    def add(self, of: str, name: str, value: float) -> None:
        self.numbers.append((of, "", name, value))


class Monitor:
    """Records one training. The caller says when gradients are complete (before_update), when an optimizer
    has stepped (after_update), and, where several optimizers make one step, when that is over.

    A fault of ours ends the monitor with an error in the log, and never the training. Where several processes
    take part, each of them must step its monitor as often as the others; one that does not ends it for all.

    members: the processes that take part, this one among them; None: all.
    ranks, steps: those that are recorded; empty: all. sinks, rules: beside those of the settings. on_alarm:
        told of the first alarm of a step, once in a cooldown: in every process, when the values are those of
        all.
    """

    def __init__(
        self,
        settings: MonitorConfig,
        output: Path,
        *,
        members: Sequence[int] | None = None,
        ranks: Sequence[int] = (),
        steps: Sequence[int] = (),
        sinks: Sequence[Sink] = (),
        rules: Sequence[Callable[..., Any]] = (),
        on_alarm: Callable[[Alarm], None] | None = None,
        on_step_end: Callable[[int], None] | None = None,
    ) -> None:
        check_metrics(settings.metrics, "monitor")
        self.settings = settings
        self.output = output
        self.step = 0
        self.recorded = 0
        self._members = members
        self._ranks = tuple(ranks)
        self._steps = frozenset(steps)
        self._given_sinks = list(sinks)
        self._given_rules = list(rules)
        self._on_alarm = on_alarm
        self._on_step_end = on_step_end
        self._process = os.getpid()
        self._open = False
        self._optimizers: dict[int, Any] = {}  # that have stepped in this training
        self._stepped: set[int] = set()  # in this step

    # ---- beginning and end

    def begin(self, models: Sequence[Any], start: int) -> None:
        """Hooks the models, and counts from `start` on. Raises Error and OSError for what is wrong with the
        settings or the folder.
        """
        self.step = self._start = start
        distributed = _distributed()
        self._rank = _rank() if distributed else 0
        wants_ranks = not self._ranks or self._rank in self._ranks
        count = _world() if distributed else 1
        self._world = count if self._members is None else len(self._members)
        self._merges = self.settings.scope == "whole" and self._world > 1
        # Whole values need all processes; who writes them is one.
        first = 0 if self._members is None else self._members[0]
        self._writes = self._rank == first if self._merges else wants_ranks
        self._file_of = None if self.settings.scope == "whole" and first == 0 else self._rank
        if not self._merges and not wants_ranks:
            log.info("monitor: rank %d is not among the wanted ones: it records nothing", self._rank)
            return
        named = _named(models)
        adapter = torch_adapter()
        self._meter: Any = adapter.MonitorMeter(eps=self.settings.eps)
        self._sinks = Sinks([])
        self._session, self._alarms = self._make_session()
        self._has_numbers = self._writes or self._on_alarm is not None  # of all; else another process has
        if self._writes:
            self._open_outputs(models)
        self._models = list(models)
        self._merger: WholeTensors | None = None
        self._last: _EndedStep | None = None  # not written yet
        self._given: list[_Number] = []  # by the user
        parameters = parameters_of(named, self.settings.targets)
        self._parameter_rows = ParameterRows(
            parameters, self.settings, self._meter, self._session, self._label
        )
        self._module_rows = ModuleRows(
            named, self.settings, self._meter, self._session, self._label, merges=self._merges
        )
        self._communication: CommunicationRows | None = None
        if distributed and "communication" in self.settings.quantities:
            self._communication = CommunicationRows(
                self._meter, self._session, lambda name: self._label("communication", name)
            )
        wants_matrices = "matrix" in self.settings.quantities
        self._matrices = [
            one
            for one in parameters
            if wants_matrices and _is_matrix(one.tensor, one.name, self.settings.matrices)
        ]
        self._training = TrainingNumbers()
        self._wants_training = "training" in self.settings.quantities
        self._warn_of_unmatched(named)
        self._open = True
        self._begin_step()

    def close(self) -> None:
        """Takes every hook off; everything is on disk when it returns. Never raises."""
        if not self._open or os.getpid() != self._process:
            return
        self._open = False
        leave = () if self._merger is None else (self._merger.leave,)
        if self._communication is not None:
            leave = (self._communication.remove, *leave)
        for doing in (
            lambda: self._training.set_recording(False),
            self._module_rows.close,
            self._write_last,
            self._sinks.close,
            self._flush,
            *leave,
        ):
            try:
                doing()
            except Exception as error:
                log.warning("monitor: the end: %s: %s", type(error).__name__, error)
        self._session = core.MonitorSession()  # the record is closed
        self._models = []

    @property
    def is_open(self) -> bool:
        return self._open

    # ---- a step

    def before_update(self, optimizer: Any) -> None:
        self._guarded("before an optimizer", lambda: self._measure_before(optimizer))

    def after_update(self, optimizer: Any) -> None:
        self._guarded("behind an optimizer", lambda: self._stepped.add(id(optimizer)))

    @property
    def stepped(self) -> set[int]:
        """The ids of the optimizers that have stepped in the current step."""
        return self._stepped

    def end_step(self) -> None:
        """Measures what a step has left, writes it, and begins the next."""
        self._guarded("the end of a step", self._end_step)

    def add(self, name: str, value: float) -> None:
        """A number of the user's, of the step that runs; written where the step is."""
        self._guarded("a number", lambda: self._given.append(("custom", "", name, float(value))))

    def wants(self, step: int) -> bool:
        if self._steps and step not in self._steps:
            return False
        return (step - self._start) % self.settings.every == 0

    def _guarded(self, doing: str, work: Callable[[], Any]) -> None:
        if not self._open or os.getpid() != self._process:
            return
        try:
            work()
        except Exception as error:
            log.error(
                "monitor: step %d: %s: %s: %s: nothing more is recorded",
                self.step,
                doing,
                type(error).__name__,
                error,
            )
            log.debug("monitor: where it happened", exc_info=True)
        else:
            return
        self.close()  # not before: what the error holds on to would keep the connections of the processes

    def _begin_step(self) -> None:
        self._stepped = set()
        wanted = self.wants(self.step)
        self._module_rows.set_recording(wanted)
        self._training.set_recording(wanted and self._wants_training)
        if wanted and self._communication is not None:
            self._communication.install()

    def _measure_before(self, optimizer: Any) -> None:
        self._join([optimizer])
        self._optimizers.setdefault(id(optimizer), optimizer)
        self._parameter_rows.before_update(
            optimizer, recorded=self.wants(self.step), next_recorded=self.wants(self.step + 1)
        )

    def _join(self, optimizers: Sequence[Any] = ()) -> None:
        """Meets the other processes. In the first optimizer step and not before: all of them get there, while
        the stages of a pipeline call their models when the one before them has done its part.
        """
        if self._merges and self._merger is None:
            if self._communication is not None:
                self._communication.remove()
            self._merger = WholeTensors(self._session.labels, peers_of(self._models), self._members)
            views = [self._parameter_rows.view(one) for one in optimizers]
            share_parameters(self._parameter_rows.parameters, self._models, views, self._merger.group)
            if self._on_alarm is not None:
                self._share_past()
            if self._communication is not None and self.wants(self.step):
                self._communication.install()

    def _end_step(self) -> None:
        self._join()
        if self._communication is not None:
            self._communication.remove()  # what comes now is ours
        optimizers = list(self._optimizers.values())
        self._module_rows.end_step()
        ended = self._ended_step(optimizers) if self.wants(self.step) else None
        self._training.end_step()
        self._write_last()
        self._last = ended
        # Numbers of a device are waited for at the end of the next step, when they have come; several
        # processes that put theirs together wait for each other all the same.
        if ended is not None and (self._merger is not None or ended.is_complete()):
            self._write_last()
        step, self.step = self.step, self.step + 1
        self._begin_step()
        if self._on_step_end is not None:
            self._on_step_end(step)

    def _ended_step(self, optimizers: Sequence[Any]) -> _EndedStep:
        self._parameter_rows.end_step([one for one in optimizers if id(one) in self._stepped])
        rows = self._session.take_rows()
        ended = _EndedStep(self.step, rows, self._training.losses(self._meter), self._given)
        self._given = []
        ended.bring()
        if self._wants_training:
            self._training.add_to(optimizers, ended.add)
        self._add_matrices(ended)
        self.recorded += 1
        return ended

    def _write_last(self) -> None:
        """The step that has ended and is not written yet, if there is one."""
        ended, self._last = self._last, None
        if ended is None:
            return
        ended.rows.complete()
        loss = ended.losses.value()
        if self._merger is not None:
            loss = self._merger.merge(ended.step, ended.rows, self._module_rows.expert_counts, loss)
        if not self._has_numbers:
            return
        for one in ended.given:
            self._session.set(*one)
        self._session.evaluate(ended.rows)
        if self._wants_training and loss is not None:
            self._session.set("loss", "", "", loss)
        for one in ended.numbers:
            if self._writes or one[0] != "step_seconds":
                self._session.set(*one)
        self._write(ended.step)
        self._session.clear()

    def _label(self, of: str, name: str) -> int:
        return self._session.labels.add(0, name, quantity(of).number)

    def _add_matrices(self, ended: _EndedStep) -> None:
        if not self._matrices or self.recorded % self.settings.matrix_every != 0:
            return
        for one, (norm, rank) in zip(self._matrices, spectra(self._matrices)):
            ended.numbers.append(("matrix", "spectral_norm", one.name, norm))
            ended.numbers.append(("matrix", "stable_rank", one.name, rank))

    # ---- where it goes

    def _make_session(self) -> tuple[MonitorSession, Alarms]:
        settings = self.settings
        rules = rules_of(settings.rules)
        session = core.MonitorSession(
            metrics=list(settings.metrics), levels=list(settings.levels), rules=rules, every=settings.every
        )
        alarms = Alarms(
            [rule.name for rule in rules],
            settings.alarm,
            self.output,
            self._rank,
            self._on_alarm,
            functions=self._given_rules,
            tells=self._writes,
        )
        return session, alarms

    def _open_outputs(self, models: Sequence[Any]) -> None:
        settings, folder = self.settings, self.output
        if "store" in settings.sinks:
            path = folder / record_name(self._file_of)
            self._session.open(path, self._start, self._info(models))
        if self._rank == 0:
            core.monitor_continue_alarms(folder / ALARMS, self._start)
        sinks: list[Sink] = list(self._given_sinks)
        if "csv" in settings.sinks:
            path = folder / record_name(self._file_of, "csv")
            sinks.append(CsvSink(path, self._start))
        if "tensorboard" in settings.sinks:
            sinks.append(TensorBoardSink(folder / "tensorboard" / f"rank{self._rank}", self._start))
        self._sinks = Sinks(sinks)

    def _info(self, models: Sequence[Any]) -> dict[str, str]:
        import torch

        return {
            "msprobe": __version__,
            "torch": torch.__version__,
            "model": ", ".join(type(unwrapped(model)).__name__ for model in models),
            "world_size": str(self._world),
            "rank": str(self._rank),
            "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "settings": json.dumps(concealed_tree("", asdict(self.settings))),
        }

    def _share_past(self) -> None:
        """Alarms that all processes act on need rules that have seen the same in all of them."""
        assert self._merger is not None
        past = self._merger.of_first(self._session.past())
        if past is not None and not self._writes and self._has_numbers:
            self._session.learn(*past)

    def _write(self, step: int) -> None:
        self._session.append(step)
        if self._sinks:
            self._sinks.write(step, self._session.numbers())
        self._alarms.check(step, self._session)

    def _flush(self) -> None:
        if lost := self._session.flush():
            log.warning("%s: %d steps could not be written", self.output, lost)

    def _warn_of_unmatched(self, named: Sequence[tuple[str, Any]]) -> None:
        names: list[str] = []
        for prefix, model in named:
            plain = PlainNames(model)
            for parts in (named_parameters(model), named_modules(model)):
                names += [prefix + plain.of(name) for name, _ in parts]
        for pattern in self.settings.targets:
            if not any(is_wanted(name, [pattern]) for name in names):
                log.warning(
                    'monitor: targets: nothing in the model is called "%s"%s',
                    pattern,
                    close_to(pattern, names),
                )


def _named(models: Sequence[Any]) -> list[tuple[str, Any]]:
    """Each model with the beginning of its names."""
    roots = [_root(model) for model in models]
    if len(roots) == 1:
        return [("", roots[0])]
    return [(f"{index}.", model) for index, model in enumerate(roots)]


def _root(model: Any) -> Any:
    """Without wrappers, but for that of torch.compile(): the outside of what is compiled is called."""
    *around, inner = chain(model)
    return around[-1] if around and parts_of(around[-1]).get(COMPILED) is inner else inner


def _is_matrix(tensor: Any, name: str, patterns: Sequence[str]) -> bool:
    return tensor.dim() == 2 and min(tensor.shape) > 1 and is_wanted(name, patterns)


def _distributed() -> bool:
    from torch import distributed

    return distributed.is_available() and distributed.is_initialized()


def _rank() -> int:
    from torch import distributed

    return distributed.get_rank()


def _world() -> int:
    from torch import distributed

    return distributed.get_world_size()
