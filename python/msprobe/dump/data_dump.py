# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The data dump of a training process: which steps are recorded, of which model, and into which folder."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config import Config, DumpConfig
from msprobe.dump.arguments import checked_module, checked_range, compiled_models, named_modules, unsavable
from msprobe.dump.capture import compiled_modules, make_hooks, module_calls
from msprobe.dump.empty_dumps import STEPS_ENDED, EmptyDumps
from msprobe.dump.placement import gathered_parameters
from msprobe.dump.preparation import Preparation
from msprobe.dump.training_state import TrainingState
from msprobe.hooks.calls import CallRange, around_every_batch
from msprobe.hooks.functions import AttributeExchange, Exchange, Hooks
from msprobe.native import Error, InvalidArgument, import_torch, log, torch_adapter
from msprobe.training.model_parts import parameters_and_buffers
from msprobe.training.wanted_steps import WantedSteps, rank_in_group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from msprobe.transport.spool import Spool


class DataDump:
    """Records the steps that the configuration names.

    waits: step() returns when the files of the step are complete. Otherwise they become so while the next
        step runs, and close() waits for them.
    entrances, averaged: as for TrainingState.
    only_evidence: memory that says nothing about the program has no statistics: what is only written, or
        undefined, or was only shown in another way.
    """

    def __init__(
        self,
        config: Config,
        model: object = None,
        *,
        waits: bool = True,
        entrances: Mapping[int, str] | None = None,
        averaged: Callable[[], Mapping[str, nn.Module]] | None = None,
        only_evidence: bool = False,
    ) -> None:
        import_torch()
        assert isinstance(config.section, DumpConfig)
        self._config = config
        self._section = config.section
        self._model = model
        self._waits = waits
        self._only_evidence = only_evidence
        self._watched: object = None
        self._others: dict[str, nn.Module] = {}  # by their prefixes
        self._step = 0
        self._hooks: Hooks | None = None
        self._single: Hooks | None = None  # of module_dump
        self._singles: list[Any] = []
        self._tokens: CallRange | None = None
        self._fetching: Exchange | None = None  # of enable_dataloader
        self._compiled: list[Exchange] = []
        self._custom: dict[tuple[int, str], AttributeExchange] = {}
        # Level L2 has the hooks of the kind of call that it names.
        self._level = config.level
        if config.level == "L2":
            self._level = "L0" if self._section.list[0].startswith("Module.") else "L1"
        self._collecting = False
        self._ended = False
        self._first_bad = ("", "")  # records of the last step: with a NaN or an infinity, with a NaN
        # Whose devices have not said yet what was in their tensors, and who recorded them.
        self._late_steps: list[tuple[Any, int]] = []
        self._online: Spool | None = None  # in place of files
        self._process = os.getpid()
        os.register_at_fork(after_in_child=self._forget)
        adapter = torch_adapter()
        options = adapter.DumpOptions(
            config.native,
            only_evidence=only_evidence,
            packed=self._section.json == "packed",
            sketch=self._section.sketch,
        )
        self._new_session = functools.partial(adapter.DumpSession, options, stacks=self._section.stacks)
        self._session = self._new_session()
        self._other_session: Any = None  # what a step is prepared with while the one before may go on
        self._preparation: Preparation | None = None
        self._told_cut = False
        self._model_calls = 0  # of models, while a step was prepared; they are not recorded
        self._modules: list[tuple[str, nn.Module]] = []  # those watched, by their names in records
        self._training_state = TrainingState(
            _diagnosis_kinds(self._section),
            entrances,
            averaged,
            lambda path, content: self._session.attach(path, content),
            (lambda tensors: self._session.note_known(tensors)) if only_evidence else None,
        )
        self._steps = WantedSteps(config, STEPS_ENDED)
        self._empty = EmptyDumps(config, self._section)
        if config.enable_dataloader:
            self._fetching = around_every_batch(self.step, lambda: self._start(None))
            self._fetching.install()

    # ---- what PrecisionDebugger calls

    def start(self, model: object = None, token_range: list[int] | None = None) -> None:
        if self._fetching is not None:
            log.warning("start: with enable_dataloader the data loader starts and ends steps")
            return
        self._start(model, token_range)

    def stop(self) -> None:
        if self._fetching is not None:
            log.warning("stop: with enable_dataloader the data loader starts and ends steps")
            return
        self._stop()

    def _start(self, model: object, token_range: list[int] | None = None) -> None:
        if self._config.level == "debug" or self._collecting:
            return
        if not self._wanted():
            self._drop_preparation()
            return
        model = model if model is not None else self._model
        if self._level in ("L0", "mix"):
            self._watch(model)
        tokens = None
        if token_range is not None:
            tokens = (checked_module(model, "token_range"), *checked_range(token_range))
        if self._overflowed():
            return
        directory = self._directory()
        if not directory or not (self._goes_on_prepared(directory) or self._open(directory)):
            return
        if self._only_evidence:
            self._session.note_known(self._held())
        self._training_state.begin_step(
            model, directory, watches=tokens is not None, model_calls_before=self._model_calls
        )
        if self._hooks is None:
            self._renew_hooks()
        self._collecting = True
        if tokens is None:
            self._collect()
            self._training_state.watch()
        else:  # modules are counted from here on, so that a record has the number of its call
            self._collect(now=False)
            begin, end = (functools.partial(self._session.set_collecting, now) for now in (True, False))
            self._tokens = CallRange(*tokens, begin, end)

    def _collect(self, now: bool = True) -> None:
        assert self._hooks is not None
        self._session.set_collecting(now)
        with self._training_state.aside():
            self._hooks.install()

    def _pause(self) -> None:
        assert self._hooks is not None
        with self._training_state.aside():
            self._hooks.remove()
        self._session.set_collecting(False)

    def _stop(self) -> None:
        if not self._collecting:
            return
        self.module_dump_end()
        self._collecting = False
        if self._tokens is not None:
            self._tokens.remove()
            self._tokens = None
        self._pause()
        self._training_state.end_calls()
        self._session.begin_flush()
        report = self._session.report()
        if report["is_late"]:  # devices have not said yet what was in their tensors
            if (self._session, self._step) not in self._late_steps:
                self._late_steps.append((self._session, self._step))
        else:
            self._tell_first_bad(self._step, report["first_non_finite"], report["first_nan"])

    def _sessions(self) -> list[Any]:
        return [one for one in (self._session, self._other_session) if one is not None]

    def _tell_late(self) -> None:
        """Of earlier steps, whose files are made now."""
        for session in self._sessions():
            for report in session.finished_reports():
                late = next((one for one in self._late_steps if one[0] is session), None)
                if late is not None:
                    self._late_steps.remove(late)
                    self._tell_first_bad(late[1], report["first_non_finite"], report["first_nan"])

    def _tell_first_bad(self, step: int, bad: str, nan: str) -> None:
        """Once for steps in a row that begin with the same: a model may have infinities by design."""
        found, self._first_bad = self._first_bad, (bad, nan)
        if not bad or found == (bad, nan):
            return
        parts = [f"with a NaN is that of {nan}"] if nan else []
        if bad != nan:
            parts.append(f"with an infinity is that of {bad}")
        log.warning("step %d: the first output %s", step, ", the first ".join(parts))

    def _overflowed(self) -> bool:
        """Task overflow_check: whether as many records as wanted have been kept."""
        return self._config.task == "overflow_check" and bool(self._session.report()["has_enough_overflows"])

    def restore_api_dump(self) -> None:
        """Takes every hook off; the records so far stay, and start() begins anew."""
        self._stop()

    def step(self, waits: bool = False) -> None:
        """waits: for the files of the step, in any case."""
        if os.getpid() != self._process:
            return
        self._stop()
        if self._config.level == "L2" and self._wanted() and self._session.report()["operators"] == 0:
            log.warning(
                "step %d: no operator of %s was recorded: it did not run, or needs none",
                self._step,
                self._section.list[0],
            )
        self._close_step(waits)
        if self._overflowed() and not self._ended:
            self._ended = True
            log.info("%d overflows have been recorded: the check has ended", self._section.overflow_nums)
        self._step += 1

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        # As in mindstudio-probe, values are saved by every process, whatever ranks are asked for.
        if self._config.level != "debug" or not self._wanted(of_rank=False):
            return
        problem = unsavable(variable, name, save_backward)
        if problem:
            log.warning("save: %s; nothing is saved", problem)
            return
        if self._open(self._directory()):
            self._session.save(variable, name, save_backward)

    def set_init_step(self, step: int) -> None:
        self._stop()
        self._close_step()
        self._step = step

    def _close_step(self, waits: bool = False) -> None:
        waits = waits or self._waits or self._empty.has_to_count() or self._online is not None
        self._training_state.end_step()  # into the files of the step
        self._session.close(wait=waits)
        self._tell_late()
        self._count_records()
        if self._online is not None:
            self._online.end(self._step)

    def _count_records(self) -> None:
        """Of a step whose files are written."""
        if self._empty.has_to_count():
            self._empty.ended_step(self._step, self._session.report()["records"])

    def module_dump(self, module: object, name: str) -> None:
        """Records this module, as `Module.{name}.{Class}`, and no functions, until module_dump_end(). Calls
        of modules of the model of start() are recorded as always.
        """
        from torch import nn

        if not isinstance(module, nn.Module):
            raise InvalidArgument(f"module_dump: expected a torch.nn.Module, found {type(module).__name__}")
        if not isinstance(name, str):
            raise InvalidArgument(f"module_dump: expected a str as the name, found {name!r}")
        if not self._collecting:
            return
        assert self._hooks is not None
        if self._session.watches_module(module):
            log.info("module_dump: %s is recorded already", name)
            return
        self._session.watch_module(module, f"Module.{name}.{type(module).__name__}")
        self._singles.append(module)
        if self._single is not None:
            return
        self._single = Hooks([module_calls(self._session)])
        with self._training_state.aside():
            self._hooks.remove()
            self._single.install()

    def module_dump_end(self) -> None:
        if self._single is None:
            return
        with self._training_state.aside():
            self._single.remove()
            if self._collecting and self._hooks is not None:
                self._hooks.install()
        self._single = None
        for module in self._singles:
            self._session.pause_module(module)
        self._singles = []

    def register_custom_api(self, module: Any, api: str, prefix: str) -> None:
        self.restore_custom_api(module, api)
        wrapper = self._session.wrapper(getattr(module, api), f"{prefix}.{api}")
        self._custom[id(module), api] = AttributeExchange(module, api, wrapper)
        self._renew_hooks()

    def restore_custom_api(self, module: Any, api: str) -> None:
        if self._custom.pop((id(module), api), None) is not None:
            self._renew_hooks()

    def _renew_hooks(self) -> None:
        with self._training_state.aside():
            if self._hooks is not None:
                self._hooks.remove()
            self._hooks = make_hooks(self._session, self._level, list(self._custom.values()), self._compiled)
            if self._collecting:
                self._hooks.install()

    def close(self) -> None:
        if os.getpid() == self._process:
            if self._fetching is not None:
                self._fetching.remove()
            self._stop()
            self._drop_preparation()
            self._training_state.end_step()
            for session in self._sessions():
                session.end()
            self._tell_late()
            self._count_records()
            self._empty.ended(self._session.report()["records"])
            if self._online is not None:
                self._online.end(self._step)
                self._online.close()
                self._online = None

    def release(self) -> None:
        if os.getpid() == self._process:
            for session in self._sessions():
                session.forget_modules()
            self._model = self._watched = self._hooks = None
            self._others, self._modules = {}, []
            self._compiled = []

    def _forget(self) -> None:
        """In a forked child: the record is the parent's, and so is the thread that writes it."""
        if self._collecting:
            self._collecting = False
            if self._single is not None:
                self._single.remove()
            assert self._hooks is not None
            self._hooks.remove()
        if self._preparation is not None:
            self._preparation.forget()
            self._preparation = None
        self._training_state.forget()
        if self._online is not None:
            self._online.forget()

    # ---- what prepares a step

    def prepare(self, step: int) -> None:
        """Records the functions that are called from now on until the start() of this step, which is the next
        one, as its beginning. Once more: what was recorded so is dropped. Only where functions are recorded.
        """
        self._drop_preparation()
        stays = self._config.task != "statistics" or self._section.online is not None  # in its folder
        if self._level != "mix" or stays or not self._steps.has_step(step):
            return
        session = self._session
        if step > self._step:  # whose files are not complete
            session = self._other_session = self._other_session or self._new_session()
        self._model_calls = 0
        # Until a model is called nothing tells whether the process trains one, and is of this rank.
        directory = Path(self._config.dump_path, "preparation", str(os.getpid()))
        try:
            self._preparation = Preparation(session, step, str(directory), reads_all=_processes() > 1)
        except Error as error:
            log.debug("what prepares step %d is not recorded: %s", step, error)
            return
        with self._training_state.aside():
            self._preparation.begin()

    def set_preparation_aside(self, is_aside: bool) -> None:
        """Around a call of a model, which is counted, and not recorded."""
        if self._preparation is not None:
            self._model_calls += is_aside
            self._preparation.set_aside(is_aside)

    def _goes_on_prepared(self, directory: str) -> bool:
        """The step that begins goes on with the records of what prepared it; False: there is nothing."""
        prepared = self._end_preparation()
        if prepared is None:
            return False
        try:
            if prepared.step != self._step:
                raise Error(f"step {prepared.step} was prepared")
            prepared.move(directory, reads_all=_processes() > 1)
        except Error as error:
            log.debug("what prepares step %d is not recorded: %s", self._step, error)
            prepared.drop()
            return False
        if prepared.is_cut and not self._told_cut:
            self._told_cut = True
            log.warning(
                "step %d: the program makes more calls before the model than are recorded", self._step
            )
        if prepared.session is not self._session:
            self._session, self._other_session = prepared.session, self._session
            self._watch_modules()
            self._hooks = None
        self._empty.opened()
        return True

    def _drop_preparation(self) -> None:
        if (prepared := self._end_preparation()) is not None:
            prepared.drop()

    def _end_preparation(self) -> Preparation | None:
        prepared, self._preparation = self._preparation, None
        if prepared is not None:
            with self._training_state.aside():
                prepared.end()
        return prepared

    # ---- steps

    def _wanted(self, *, of_rank: bool = True) -> bool:
        if os.getpid() != self._process:
            return False
        self._empty.saw_step(self._step)
        if not self._steps.has_step(self._step):
            return False
        if not of_rank or self._steps.has_rank():
            return True
        self._empty.left_out(rank_in_group(), _processes())
        return False

    def _directory(self) -> str:
        """Empty: this step is not recorded."""
        if self._section.online is not None:
            if self._online is None:
                from msprobe.transport.spool import Spool  # with TLS and processes, which others do not need

                self._online = Spool(self._section.online, self._config.dump_path, rank_in_group() or 0)
            return self._online.begin(self._step)
        return self._steps.folder(self._step)

    def _open(self, directory: str) -> bool:
        try:
            # Collectives change memory without telling torch, so nothing is known from an earlier call.
            self._session.open(directory, read_all=_processes() > 1)
        except Error as error:
            log.warning("step %d is not recorded: %s", self._step, error)
            return False
        self._empty.opened()
        return True

    # ---- the model

    def _held(self) -> list[Any]:
        """Parameters and buffers of the models."""
        roots = self._watched if isinstance(self._watched, (list, tuple)) else [self._watched]
        return [
            tensor
            for root in (*roots, *self._others.values())
            if root is not None
            for tensor in parameters_and_buffers(root)
        ]

    def _watch(self, model: object) -> None:
        if self._watched is not None:
            if model is not None and model is not self._watched:
                log.warning("start: another model is given; the one of the first start() is recorded")
            return
        modules = [*named_modules(model), *compiled_models(model)]
        self._modules += [(f"Module.{name}", module) for name, module in modules]
        self._watched = model
        self._watch_modules()

    def _watch_modules(self) -> None:
        """All, by the session that records now."""
        for name, module in self._modules:
            if not self._session.watches_module(module):
                self._session.watch_module(module, name)
        if self._watched is not None:
            self._place_parameters(self._watched)
        self._compiled = compiled_modules(self._session, [module for _, module in self._modules])

    def _place_parameters(self, model: object) -> None:
        """Tells where the parameters of FSDP lie. torch may change what is asked for: that costs the answer,
        never the training.
        """
        roots: list[Any] = list(model) if isinstance(model, (list, tuple)) else [model]
        try:
            for root in roots:
                for module, placements in gathered_parameters(root):
                    self._session.place_parameters(module, placements)
        except (AttributeError, TypeError, ValueError) as error:
            log.warning("where the parameters of FSDP lie is not recorded: %s", error)

    def watch_also(self, model: nn.Module, prefix: str) -> bool:
        """Records the modules of a further model from its next call on, with `prefix` in front of their
        paths. Levels without modules: nothing. False: it is recorded already.
        """
        if any(model is known for known in self._others.values()):
            return False
        while prefix in self._others:
            prefix += "_1"
        self._others[prefix] = model
        if self._watched is not None:
            named = [(f"Module.{prefix}.{name}", module) for name, module in named_modules(model)]
            self._modules += named
            for name, module in named:
                self._session.watch_module(module, name)
        self._training_state.add_model(prefix, model)
        return True

    def drop_step(self) -> None:
        """Nothing stays of the step that has begun, which begins again with the next start()."""
        if not self._collecting:
            return
        self._collecting = False
        self._pause()
        self._session.close(wait=True)
        self._training_state.forget()
        shutil.rmtree(self._directory(), ignore_errors=True)


def _diagnosis_kinds(section: DumpConfig) -> list[str]:
    """Parameters asked for by their own key stand in the same file."""
    asked = ["parameters"] if section.parameters else []
    return list(dict.fromkeys([*section.diagnosis, *asked]))


def _processes() -> int:
    from torch import distributed

    return distributed.get_world_size() if rank_in_group() is not None else 1
