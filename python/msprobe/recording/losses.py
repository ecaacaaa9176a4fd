# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What backward() is called on, step by step.

A line is `step,loss,backward_calls`. With several calls in a step (accumulated gradients) `loss` is their
sum; with a gradient scaler it is the scaled one, as backward() gets it. Numbers are exact.
"""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory
from msprobe.files.loss_files import HEADER, join, own_file
from msprobe.files.regular_file import open_to_write
from msprobe.native import Error, log, torch_adapter
from msprobe.training.measurement import has_numbers
from msprobe.training.phases import watch_backward

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def finish_losses(folder: Path, rank: int, processes: int) -> str:
    """After the last line of this process. Returns the name of the file that they are in: of several
    processes, one has them all.
    """
    if processes > 1:
        try:
            return join(folder, rank)
        except (Error, OSError) as error:
            log.debug("the losses of rank %d stay in a file of their own: %s", rank, error)
    return own_file(rank)


class LossFile:
    """Lines are on disk when they are written, so that a killed process leaves what it had. There is no file
    before the first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None

    def add(self, step: int, losses: Sequence[float]) -> None:
        if self._file is None:
            make_directory(self._path.parent)
            opened = open_to_write(self._path)
            self._file = io.TextIOWrapper(opened, encoding="ascii", newline="", line_buffering=True)
            self._file.write(HEADER)
        loss = repr(sum(losses)) if losses else ""
        self._file.write(f"{step},{loss},{len(losses)}\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class LossRecorder:
    """Writes a line for each step. A device is asked for a number one step late: it has it by then, and
    training does not wait.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.steps = 0
        self._now: list[Any] = []
        self._before: tuple[int, list[Any]] | None = None
        self._watches = watch_backward(self._note)
        self._file = LossFile(path)

    def install(self) -> None:
        for watch in self._watches:
            watch.install()

    def end_step(self, step: int) -> None:
        self._write_before()
        self._before, self._now = (step, self._now), []
        self.steps += 1

    def drop_step(self) -> None:
        self._now = []

    def close(self) -> None:
        for watch in reversed(self._watches):
            watch.remove()
        self._write_before()
        self._file.close()

    def _note(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with contextlib.suppress(Exception):  # what cannot be read is no loss
            self._now.extend(_scalars(args[0] if args else kwargs.get("tensors")))

    def _write_before(self) -> None:
        if self._before is None:
            return
        step, values = self._before
        self._before = None
        self._file.add(step, [float(value.item()) for value in values])


def _scalars(tensors: Any) -> list[Any]:
    """Copies of those with one element."""
    import torch

    with torch_adapter().NoModes(), torch.no_grad():
        several = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or ())
        return [
            one.detach().clone()
            for one in several
            if one.numel() == 1 and not one.is_complex() and has_numbers(one)
        ]
