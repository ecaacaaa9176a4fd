# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The free benchmark of a training process: which steps it looks at, and what it leaves on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config import Config, FreeBenchmarkConfig
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.hooks.calls import around_every_batch
from msprobe.hooks.functions import AttributeExchange, Hooks
from msprobe.hooks.listed_functions import function_exchanges
from msprobe.native import Error, __version__, import_torch, log, torch_adapter
from msprobe.training.wanted_steps import WantedSteps, rank_in_group

if TYPE_CHECKING:
    from msprobe.hooks.functions import Exchange

SUMMARY = "free_benchmark_summary.json"
_SHOWN = 5  # functions of each kind, in the log


class FreeBenchmark:
    """Makes the calls between start() and stop() a second time, in the steps that the configuration wants."""

    def __init__(self, config: Config) -> None:
        import_torch()
        assert isinstance(config.section, FreeBenchmarkConfig)
        self._section = config.section
        self._wanted = WantedSteps(config, "has been looked at: the free benchmark has ended")
        self._step = 0
        self._folder: Path | None = None  # of the open step
        self._rank = 0
        self.checked = 0
        self.inconsistent = 0
        """Calls that were made again, and results that were then too far off, in all steps."""
        self._collecting = False
        self._hooks: Hooks | None = None
        self._custom: dict[tuple[int, str], AttributeExchange] = {}
        self._left_out: dict[str, str] = {}  # registered function -> reason
        self._told: set[str] = set()
        self._process = os.getpid()
        os.register_at_fork(after_in_child=self._forget)
        adapter = torch_adapter()
        section = self._section
        self._session = adapter.FunctionInterventions()
        self._benchmark = adapter.FreeBenchmark(
            pert_mode=section.pert_mode,
            fix=section.handler_type == "fix",
            backward=section.fuzz_stage == "backward",
            list=list(section.list),
            scope=list(section.scope),
            preheat=(section.preheat_step, section.max_sample) if section.if_preheat else None,
        )
        self._session.set_intervener(self._benchmark)
        self._fetching: Exchange | None = None
        if config.enable_dataloader:
            self._fetching = around_every_batch(self.step, self._start)
            self._fetching.install()

    # ---- what PrecisionDebugger calls

    def start(self, model: object = None, token_range: list[int] | None = None) -> None:
        if self._fetching is not None:
            log.warning("start: with enable_dataloader the data loader starts and ends steps")
            return
        self._start()

    def stop(self) -> None:
        if self._fetching is not None:
            log.warning("stop: with enable_dataloader the data loader starts and ends steps")
            return
        self._stop()

    def restore_api_dump(self) -> None:
        self._stop()

    def step(self) -> None:
        if os.getpid() != self._process:
            return
        self._stop()
        self._end_step()
        self._step += 1

    def set_init_step(self, step: int) -> None:
        self._stop()
        self._end_step()
        self._step = step

    def register_custom_api(self, module: Any, api: str, prefix: str) -> None:
        """Only operators of torch.ops whose schema says that they change nothing are made again."""
        self.restore_custom_api(module, api)
        function = getattr(module, api)
        reason = _why_not_repeated(function)
        if reason:
            self._left_out[f"{prefix}.{api}"] = reason
            log.warning("free_benchmark: %s.%s is left out: %s", prefix, api, reason)
            return
        wrapper = self._session.wrapper(function, f"{prefix}.{api}")
        self._custom[id(module), api] = AttributeExchange(module, api, wrapper)
        self._renew_hooks()

    def restore_custom_api(self, module: Any, api: str) -> None:
        if self._custom.pop((id(module), api), None) is not None:
            self._renew_hooks()

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Nothing, as for module_dump(): no values are kept."""

    def module_dump(self, module: object, name: str) -> None: ...

    def module_dump_end(self) -> None: ...

    def close(self) -> None:
        if os.getpid() != self._process:
            return
        if self._fetching is not None:
            self._fetching.remove()
        self._stop()
        self._end_step()
        self._session.end()

    def release(self) -> None:
        """Nothing: no model is held."""

    # ---- a step

    def _start(self) -> None:
        if self._collecting or os.getpid() != self._process:
            return
        if not self._wanted.has_step(self._step) or not self._wanted.has_rank():
            return
        try:
            self._folder = make_directory(self._wanted.folder(self._step))
        except Error as error:
            log.warning("free_benchmark: step %d is not looked at: %s", self._step, error)
            return
        self._rank = rank_in_group() or 0
        self._benchmark.begin_step(self._folder, rank=self._rank, step=self._step)
        if self._hooks is None:
            self._hooks = self._make_hooks()
        self._collecting = True
        self._session.set_active(True)
        self._hooks.install()

    def _stop(self) -> None:
        if not self._collecting:
            return
        self._collecting = False
        assert self._hooks is not None
        self._hooks.remove()
        self._session.set_active(False)

    def _end_step(self) -> None:
        report = self._benchmark.end_step()
        self._session.begin_step()
        folder, self._folder = self._folder, None
        if folder is None:
            return
        for name, reason in self._left_out.items():
            report["left_out"].setdefault(reason, {})[name] = None
        self._tell(report)
        self.checked += report["checked"]
        self.inconsistent += report["inconsistent"]
        content = {
            "format": 1,
            "msprobe": __version__,
            "step": self._step,
            "rank": self._rank,
            "pert_mode": self._section.pert_mode,
            "handler_type": self._section.handler_type,
            "fuzz_stage": self._section.fuzz_stage,
            **report,
        }
        try:
            write_text(folder / SUMMARY, json.dumps(content, indent=1) + "\n")
        except Error as error:
            log.warning("%s", error)

    def _tell(self, report: dict[str, Any]) -> None:
        what = "replaced" if self._section.handler_type == "fix" else "made again"
        log.info(
            "free_benchmark: step %d: %d calls, %d %s, %d inconsistent results",
            self._step,
            report["calls"],
            report["checked"],
            what,
            report["inconsistent"],
        )
        if report["calls"] > 0 and report["checked"] == 0 and not self._counts_only():
            log.warning("free_benchmark: step %d: no call could be %s", self._step, what)
        elif report["calls"] == 0:
            log.warning("free_benchmark: step %d: no call was seen that list and scope name", self._step)
        for function, fault in report["faults"].items():
            if function not in self._told:
                self._told.add(function)
                log.warning("free_benchmark: %s: %s", function, fault)
        for reason, functions in report["left_out"].items():
            if reason not in self._told:
                self._told.add(reason)
                names = ", ".join(list(functions)[:_SHOWN]) + (" ..." if len(functions) > _SHOWN else "")
                log.info("free_benchmark: left out, because %s: %s", reason, names)

    def _counts_only(self) -> bool:
        return self._section.if_preheat and self._step == 0

    # ---- hooks

    def _make_hooks(self) -> Hooks:
        return Hooks([*function_exchanges(self._session), *self._custom.values()])

    def _renew_hooks(self) -> None:
        if self._hooks is not None:
            self._hooks.remove()
        self._hooks = self._make_hooks()
        if self._collecting:
            self._hooks.install()

    def _forget(self) -> None:
        """In a forked child: what is looked at is the parent's."""
        if self._collecting:
            self._collecting = False
            assert self._hooks is not None
            self._hooks.remove()
            self._session.set_active(False)


def _why_not_repeated(function: Any) -> str:
    """Of a function registered by the user; empty: it can be called again."""
    import torch

    overloads: list[Any] = []
    packet: Any = function
    if isinstance(function, torch._ops.OpOverload):
        overloads = [function]
    elif isinstance(function, torch._ops.OpOverloadPacket):
        overloads = [getattr(packet, name) for name in packet.overloads()]
    if not overloads:
        return "it has no schema that says what it changes"
    if any(one._schema.is_mutable for one in overloads):
        return "its schema says that it changes its arguments"
    return ""
