# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The gradient probe of a framework behind a port: the gradients that its optimizer is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.config import Config, GradProbeConfig, did_you_mean
from msprobe.grad_probe.earlier_record import layout_of, tell_earlier_record
from msprobe.native import Error, UnsupportedError, core, log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.frameworks.port import Port
    from msprobe.hooks.functions import Exchange


class PortProbe:
    """Records from monitor(optimizer) on. One optimizer at a time: another one takes its place."""

    def __init__(self, config: Config, port: Port) -> None:
        assert isinstance(config.section, GradProbeConfig)
        self._config = config
        self._section = config.section
        self._port = port
        self._writer: core.GradWriter | None = None
        self._optimizer: object = None
        self._exchange: Exchange | None = None
        self._names: list[str] = []
        self._step = 0

    @property
    def is_watching(self) -> bool:
        return self._optimizer is not None

    def monitor(self, optimizer: object) -> None:
        if optimizer is self._optimizer:
            return
        if reason := self._port.why_not():
            raise UnsupportedError(f"monitor(): {reason}")
        names = self._port.names_of_gradients(optimizer)
        exchange = self._port.optimizer_steps(optimizer, self._on_step)
        self.close()
        rank = self._port.rank() or 0
        if self._config.ranks and rank not in self._config.ranks:
            return
        self._tell_unknown(names)
        directory = Path(self._config.dump_path, f"rank{rank}")
        tell_earlier_record(directory)
        self._writer = core.GradWriter(
            self._config.dump_path,
            rank=rank,
            level=self._section.grad_level,
            bounds=[(float(bound), str(bound)) for bound in self._section.bounds],
            layout=layout_of(self._section),
        )
        self._optimizer, self._names, self._exchange = optimizer, names, exchange
        exchange.install()

    def start(self, model: object = None) -> None:
        """Nothing: steps are those of the optimizer."""

    def stop(self) -> None:
        self.flush()

    def flush(self) -> None:
        if self._writer is not None and (lost := self._writer.flush()):
            log.warning("%s: %d steps could not be written", self._config.dump_path, lost)

    def close(self) -> None:
        if self._exchange is not None:
            self._exchange.remove()
            self._exchange = None
        self.flush()
        self._writer = None

    def release(self) -> None:
        self._optimizer = None

    def _on_step(self, gradients: Sequence[Any]) -> None:
        """Before each step of the optimizer. A fault of ours must not stop the training."""
        step, self._step = self._step, self._step + 1
        if self._writer is None or (self._config.steps and step not in self._config.steps):
            return
        try:
            wanted = self._section.param_list
            self._writer.record(
                step,
                [
                    (name, self._port.view(gradient))
                    for name, gradient in zip(self._names, gradients)
                    if gradient is not None and (not wanted or name in wanted)
                ],
            )
        except (Error, RuntimeError, TypeError, ValueError, AttributeError) as error:
            log.error("gradient probe: step %d is not recorded: %s", step, error)

    def _tell_unknown(self, names: list[str]) -> None:
        unknown = [name for name in dict.fromkeys(self._section.param_list) if name not in names]
        if unknown:
            hints = [f"{name!r} ({did_you_mean(name, names) or 'nothing is close'})" for name in unknown]
            log.warning("param_list: the optimizer has no parameter of these names: %s", ", ".join(hints))
