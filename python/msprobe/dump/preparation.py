# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What a program computes between its steps: the data of the next one, as labels, noise, advantages."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.hooks.functions import Hooks
from msprobe.hooks.listed_functions import function_exchanges
from msprobe.training.optimizer import OptimizerUpdates

if TYPE_CHECKING:
    from msprobe._torch import DumpSession

PHASE = "preparation"
"""The place of these calls in the hierarchy."""

MOST_CALLS = 5_000
"""A bound of what is read and written for one step, as of a program that makes all of its data there."""


class Preparation:
    """Records functions, from begin() to end(), as the beginning of a step. What another optimizer does
    meanwhile is of the step before.

    directory: of the files of the step; another one until the step begins. Raises IoError.
    """

    def __init__(self, session: DumpSession, step: int, directory: str, *, reads_all: bool) -> None:
        session.open(directory, reads_all)
        self.session = session
        self.step = step
        self._directory = directory
        self.is_cut = False
        """After end(): there were more calls than are recorded."""
        self._is_aside = {"model": False, "optimizer": False}
        updates = OptimizerUpdates(
            lambda *_: self._set_aside("optimizer", True), lambda _: self._set_aside("optimizer", False)
        )
        self._hooks = Hooks([*function_exchanges(session), updates])

    def begin(self) -> None:
        self.session.set_collecting(True, at_most=MOST_CALLS)
        self.session.open_phase(PHASE)
        self._hooks.install()

    def set_aside(self, is_aside: bool) -> None:
        """Around the call of a model; of one that raised the next one is the end."""
        self._set_aside("model", is_aside)

    def _set_aside(self, inside_of: str, is_aside: bool) -> None:
        self._is_aside[inside_of] = is_aside
        self.session.pause(any(self._is_aside.values()))

    def end(self) -> None:
        """The records stay."""
        self._hooks.remove()
        self.is_cut = self.session.report()["is_cut"]
        self.session.close_phase(PHASE)
        self.session.set_collecting(False)

    def forget(self) -> None:
        """In a forked child, where a thread that is gone may hold what the session needs to answer."""
        self._hooks.remove()
        self.session.set_collecting(False)

    def move(self, directory: str, *, reads_all: bool) -> None:
        """After end(). Raises IoError."""
        self.session.move(directory, reads_all)
        _remove(self._directory)
        self._directory = directory

    def drop(self) -> None:
        """After end(): nothing stays."""
        self.session.close(wait=True)
        _remove(self._directory)


def _remove(directory: str) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    with suppress(OSError):  # other processes have theirs
        Path(directory).parent.rmdir()
