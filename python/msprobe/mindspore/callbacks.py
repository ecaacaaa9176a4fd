# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Callbacks for mindspore.train.Model.train(), which has the steps of a training to itself."""

from __future__ import annotations

import functools
from typing import Any

from msprobe.debugger import PrecisionDebugger
from msprobe.frameworks.mindspore import import_mindspore


class MsprobeStep:
    """MsprobeStep(debugger): a Callback that starts the debugger before each step, and ends the step."""

    def __new__(cls, debugger: Any) -> Any:
        """Raises UnsupportedError where MindSpore cannot be imported."""
        return _step()(debugger)


class MsprobeInitStep:
    """MsprobeInitStep(): a Callback; a training that is resumed counts its steps from where it was."""

    def __new__(cls) -> Any:
        """Raises UnsupportedError where MindSpore cannot be imported."""
        return _init_step()()


@functools.cache
def _step() -> type:
    class Step(import_mindspore().train.Callback):  # type: ignore[misc]
        def __init__(self, debugger: Any) -> None:
            super().__init__()
            self.debugger = debugger

        def on_train_step_begin(self, run_context: Any) -> None:
            self.debugger.start(_network(run_context))

        def on_train_step_end(self, run_context: Any) -> None:
            self.debugger.stop()
            self.debugger.step()

    return Step


@functools.cache
def _init_step() -> type:
    class InitStep(import_mindspore().train.Callback):  # type: ignore[misc]
        def on_train_begin(self, run_context: Any) -> None:
            PrecisionDebugger.set_init_step(int(run_context.original_args().cur_step_num))

    return InitStep


def _network(run_context: Any) -> Any:
    parameters = run_context.original_args()
    return getattr(parameters, "network", None) or getattr(parameters, "train_network", None)
