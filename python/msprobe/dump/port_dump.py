# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The data dump of a framework behind a port: which steps are recorded, of which model, in which folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msprobe.config import Config, DumpConfig
from msprobe.dump.arguments import checked_range
from msprobe.dump.empty_dumps import STEPS_ENDED, EmptyDumps
from msprobe.dump.port_calls import PortCalls
from msprobe.dump.port_state import PortState
from msprobe.hooks.functions import Hooks
from msprobe.native import Error, InvalidArgument, UnsupportedError, core, log
from msprobe.training.wanted_steps import WantedSteps

if TYPE_CHECKING:
    from msprobe.frameworks.port import Port
    from msprobe.hooks.functions import Exchange


class PortDump:
    """Records the steps that the configuration names. Raises UnsupportedError for what only a device or
    another framework has.
    """

    def __init__(self, config: Config, port: Port) -> None:
        section = config.section
        assert isinstance(section, DumpConfig)
        _check(config, section)
        self._config = config
        self._port = port
        self._session = core.DumpSession(
            config.native,
            port,
            stacks=section.stacks,
            packed=section.json == "packed",
            sketch=section.sketch,
        )
        self._calls = PortCalls(port, self._session)
        self._state = PortState(section.diagnosis, port, self._session.attach)
        self._of_state = Hooks(self._state.exchanges())
        self._steps = WantedSteps(config, STEPS_ENDED, port.rank)
        self._empty = EmptyDumps(config, section)
        self._custom: dict[tuple[int, str], Exchange] = {}
        self._hooks: Hooks | None = None
        self._of_root = Hooks([])  # of token_range, where no hook sees modules
        self._watched: object = None
        self._step = 0
        self._collecting = False
        self._process = os.getpid()

    # ---- what PrecisionDebugger calls

    def start(self, model: object = None, token_range: list[int] | None = None) -> None:
        if self._config.level == "debug" or self._collecting or not self._wanted() or self._overflowed():
            return
        if reason := self._port.why_not():
            raise UnsupportedError(f"start(): {reason}")
        tokens = None if token_range is None else (_root_of(model), *checked_range(token_range))
        self._watch(model)
        if not self._open():
            return
        self._state.begin_step(
            self._watched if self._watched is not None else model, self._steps.folder(self._step)
        )
        self._of_state.install()
        if self._hooks is None:
            self._hooks = self._make_hooks()
        self._collecting = True
        self._session.set_collecting(tokens is None)
        if tokens is not None:
            self._calls.only_calls(*tokens)
            self._of_root = Hooks(self._port.module_calls(self._calls) if self._config.level == "L1" else [])
            self._of_root.install()
        self._hooks.install()

    def stop(self) -> None:
        if not self._collecting:
            return
        self._collecting = False
        assert self._hooks is not None
        self._hooks.remove()
        self._of_root.remove()
        self._calls.only_calls(None, 0, 0)
        self._session.set_collecting(False)
        self._session.begin_flush()
        if first := self._session.report()["first_non_finite"]:
            log.warning(
                "step %d: the first output with a NaN or an infinity is that of %s", self._step, first
            )

    def step(self) -> None:
        if os.getpid() != self._process:
            return
        self.stop()
        self._close_step()
        self._step += 1

    def set_init_step(self, step: int) -> None:
        self.stop()
        self._close_step()
        self._step = step

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        if self._config.level == "debug" and self._wanted() and self._open():
            self._calls.save(variable, name, save_backward)

    def register_custom_api(self, module: Any, api: str, prefix: str) -> None:
        self.restore_custom_api(module, api)
        exchange = self._port.custom_function(self._calls, module, api, f"{prefix}.{api}")
        self._custom[id(module), api] = exchange
        self._renew_hooks()

    def restore_custom_api(self, module: Any, api: str) -> None:
        if self._custom.pop((id(module), api), None) is not None:
            self._renew_hooks()

    def module_dump(self, module: object, name: str) -> None:
        raise UnsupportedError(f"module_dump: there is none for {self._port.package}; level L0 records Cells")

    def module_dump_end(self) -> None:
        """Nothing: module_dump() has none."""

    def restore_api_dump(self) -> None:
        self.stop()

    def close(self) -> None:
        if os.getpid() != self._process:
            return
        self.stop()
        self._of_state.remove()
        self._calls.end_step()
        self._state.end_step()  # into the files of the step
        self._session.end()
        self._empty.ended(self._session.report()["records"])

    def release(self) -> None:
        self._hooks = self._watched = None

    # ---- steps

    def _wanted(self) -> bool:
        if os.getpid() != self._process:
            return False
        self._empty.saw_step(self._step)
        if not self._steps.has_step(self._step):
            return False
        if self._steps.has_rank():
            return True
        self._empty.left_out(self._port.rank(), self._port.world_size())
        return False

    def _overflowed(self) -> bool:
        return self._config.task == "overflow_check" and bool(self._session.report()["has_enough_overflows"])

    def _open(self) -> bool:
        try:
            self._session.open(self._steps.folder(self._step))
        except Error as error:
            log.warning("step %d is not recorded: %s", self._step, error)
            return False
        self._empty.opened()
        return True

    def _close_step(self) -> None:
        self._of_state.remove()
        self._calls.end_step()
        self._state.end_step()  # into the files of the step
        self._session.close()
        if self._empty.has_to_count():
            self._empty.ended_step(self._step, self._session.report()["records"])

    # ---- hooks

    def _watch(self, model: object) -> None:
        if self._watched is not None:
            if model is not None and model is not self._watched:
                log.warning("start: another model is given; the one of the first start() is recorded")
            return
        if model is None and self._config.level == "L1":
            return
        for name, module in self._port.modules(model):
            if self._config.level != "L1":
                self._calls.watch_module(module, name)
        self._watched = model
        self._hooks = None

    def _make_hooks(self) -> Hooks:
        exchanges: list[Exchange] = []
        if self._config.level in ("L1", "mix"):
            exchanges += [*self._port.functions(self._calls, self._watched), *self._custom.values()]
        if self._config.level in ("L0", "mix"):
            exchanges += self._port.module_calls(self._calls)
        return Hooks([*exchanges, *self._port.around_compiled(exchanges, self._calls)])

    def _renew_hooks(self) -> None:
        if self._hooks is not None:
            self._hooks.remove()
        self._hooks = self._make_hooks() if self._collecting else None
        if self._hooks is not None:
            self._hooks.install()


def _root_of(model: object) -> object:
    root = model[0] if isinstance(model, (list, tuple)) and model else model
    if root is None:
        raise InvalidArgument("start(token_range=...): expected a model, whose calls are counted")
    return root


def _check(config: Config, section: DumpConfig) -> None:
    if config.level == "L2":
        raise UnsupportedError(
            '"level": L2 records kernels of Ascend through its driver, which msprobe does not do; '
            "expected L0, L1, mix or debug"
        )
    if config.enable_dataloader:
        raise InvalidArgument('"enable_dataloader": expected false: MindSpore steps are start() to step()')
    if section.online is not None:
        raise UnsupportedError("online checks are for PyTorch; expected a configuration without them")
