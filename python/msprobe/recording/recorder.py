# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What is led along a training (recorded_training.py)."""

from __future__ import annotations

from typing import Any, Protocol


class Recorder(Protocol):
    """One thing that is recorded along a training. What it raises ends it, not the training."""

    @property
    def name(self) -> str:
        """What it records, for messages."""

    def models_found(self, models: list[Any]) -> None:
        """Told before the first call of a model, and again when there are more of them; always before the
        first optimizer step has ended.
        """

    def called_beside(self, name: str, module: Any) -> None:
        """Told before the first call of a module that is no model but takes part in a step: one that is
        frozen.
        """

    def prepare_step(self, step: int) -> None:
        """What is called from here on prepares this step, outside of models: behind the end of the step
        before, and in front of the first one, where an optimizer is made, for recorders that are there then.
        Of one step it may be told several times: the last one counts.
        """

    def set_aside(self, is_aside: bool) -> None:
        """Around the call of a model that is of no step."""

    def begin_step(self, step: int) -> None:
        """Before the first call of a model in a step."""

    def drop_step(self, step: int) -> None:
        """What came since begin_step() was no step: nothing of it stays, and begin_step() follows. Of the
        first step there is discard().
        """

    def discard(self) -> None:
        """The same of the first step: there is nothing else yet, and others take the place of this."""

    def end_step(self, step: int) -> None:
        """When the optimizer has stepped."""

    def close(self) -> None:
        """At the end: everything is on disk when it returns."""


class QuietRecorder:
    """A Recorder that makes of most events what most recorders do: nothing."""

    name: str

    def models_found(self, models: list[Any]) -> None:
        pass

    def called_beside(self, name: str, module: Any) -> None:
        pass

    def prepare_step(self, step: int) -> None:
        pass

    def set_aside(self, is_aside: bool) -> None:
        pass

    def begin_step(self, step: int) -> None:
        pass

    def drop_step(self, step: int) -> None:
        pass

    def discard(self) -> None:
        self.close()

    def end_step(self, step: int) -> None:
        pass

    def close(self) -> None:
        pass
