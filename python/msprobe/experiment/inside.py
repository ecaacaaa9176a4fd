# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What happens in each process of an experiment, from the start of Python on."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.experiment import changes, sources
from msprobe.experiment.along_the_training import modules_of
from msprobe.experiment.at_modules import AtModules
from msprobe.experiment.own_folder import copy_before_writing, own_copy
from msprobe.experiment.plan import VARIABLE, read_plan
from msprobe.files.atomic_file import write_text
from msprobe.hooks.arming import when_torch_is_imported
from msprobe.native import Error
from msprobe.recording.recorder import QuietRecorder

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from msprobe.experiment.plan import Plan
    from msprobe.recording.recorder import Recorder


COMPILED = "compiled.txt"
"""In the folder of a run that calls torch.compile; empty."""

MODULES = "modules.txt"
"""In the folder of a run: the names of the modules of its models that are called in a step, a line each."""


def begin() -> None:
    """Called by start/sitecustomize.py. Where the plan cannot be carried out the process ends: its result
    would be that of another experiment.
    """
    try:
        plan = read_plan(os.environ[VARIABLE])
        sys.addaudithook(copy_before_writing(plan.folder))
        if plan.notes_sources:
            sources.note(plan.folder)
        changes.at_start(plan.changes)
    except Error as error:
        raise SystemExit(f"msprobe: {error}") from error
    when_torch_is_imported(lambda: _with_torch(plan))


def _with_torch(plan: Plan) -> None:
    from msprobe.recorders import RunRecording
    from msprobe.recording.settings import CAN_BE_LEFT_OUT, run_settings

    try:
        _save_into_copies(plan.folder)
        _note_compile(Path(plan.folder))
        changes.with_torch(plan.changes)
        settings = run_settings(
            output=plan.folder,
            steps=plan.steps or "0",
            without=() if plan.steps else [part for part in CAN_BE_LEFT_OUT if part != "losses"],
        )
    except Error as error:
        raise SystemExit(f"msprobe: {error}") from error
    recording = RunRecording(settings, sys.argv or [""], beside=lambda: _recorders(plan))
    recording.begin()
    atexit.register(recording.end, "ended")


def _recorders(plan: Plan) -> list[Recorder]:
    """In the order in which a step begins: the run ends before anything is changed or measured."""
    from msprobe.experiment.digests import DigestRecorder
    from msprobe.recording.run_file import rank_of_process

    result: list[Recorder] = [] if plan.stop is None else [_Stop(plan.stop)]
    if plan.lists_modules and rank_of_process() == 0:
        result.append(_Names(Path(plan.folder)))
    result += changes.recorders(plan.changes)
    if plan.keeps is not None:
        again = Path(plan.again) if plan.again else None
        steps, first = range(*plan.keeps), plan.keeps[0] if plan.keeps_given else None
        folder = Path(plan.folder)
        result += keepers(folder, steps, plan.keeps_values, plan.keeps_modules, first, again)
    return [*result, DigestRecorder(Path(plan.folder), rank_of_process())]


def keepers(
    folder: Path,
    steps: Container[int],
    values: Sequence[str],
    modules: Sequence[str],
    first: int | None = None,
    again: Path | None = None,
) -> list[Recorder]:
    """What keeps values of these kinds (kept.KINDS) of `steps`, and the calls of modules in them. first,
    again: see ModuleKeeper.
    """
    from msprobe.experiment.feed import Keeper
    from msprobe.experiment.transplant import ModuleKeeper

    result: list[Recorder] = [Keeper(folder, steps, values)] if values else []
    return [*result, *([ModuleKeeper(folder, steps, modules, first, again)] if modules else [])]


class _Names(AtModules):
    """Writes the names of the modules that the first step calls."""

    name = "names of modules"

    def __init__(self, folder: Path) -> None:
        super().__init__(())
        self._path = folder / MODULES
        self._seen: dict[str, None] = {}

    def models_found(self, models: list[Any]) -> None:
        self._wanted = tuple(filter(None, modules_of(models)))
        super().models_found(models)

    def is_on(self) -> bool:
        return self.step == 0

    def answer(self, path: str, number: int, call: Any, args: Any, kwargs: Any) -> Any:
        self._seen[path] = None
        return call(*args, **kwargs)

    def end_step(self, step: int) -> None:
        if self.is_on():
            write_text(self._path, "".join(f"{name}\n" for name in self._seen))
        self._is_open = False


class _Stop(QuietRecorder):
    """Ends the process where a step would begin."""

    name = "the end of the experiment"

    def __init__(self, step: int) -> None:
        self._step = step

    def begin_step(self, step: int) -> None:
        if step >= self._step:
            raise SystemExit(0)


def _note_compile(folder: Path) -> None:
    import functools

    import torch

    original: Any = torch.compile

    @functools.wraps(original)
    def noted(model: Any = None, **kwargs: Any) -> Any:
        (folder / COMPILED).touch()
        return original(model, **kwargs)

    torch.compile = noted


def _save_into_copies(folder: str) -> None:
    """torch.save opens its file in C++, which no audit hook sees."""
    import functools

    import torch

    original = torch.save
    inside = os.path.abspath(folder) + os.sep

    @functools.wraps(original)
    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        own_copy(f, inside)
        return original(obj, f, *args, **kwargs)

    torch.save = save
