# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The commands that start trainings, as functions: msprobe.repeat(), resume(), hunt()."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msprobe.experiment.command_line import Command
    from msprobe.hunt.answer import Answer as Hunted
    from msprobe.repeat.answer import Answer as Repeated
    from msprobe.resume.answer import Answer as Resumed

    StrPath = Union[str, os.PathLike[str]]


def repeat(
    command: str | Sequence[str],
    output: StrPath = "./repeat",
    *,
    runs: int = 2,
    stop: int | None = None,
    limit: float | None = None,
    max_runs: int = 20,
    force: bool = False,
) -> Repeated:
    """Does a training repeat itself? Runs it again and again (docs/repeat.md).

    command: as typed, "python train.py --lr 1e-3", or its words. output: folder for the runs. runs: that are
    compared. stop: each ends after so many steps. limit: seconds for each. max_runs: of all together.
    force: replace earlier ones. Raises InvalidArgument where it fails, and IoError.
    """
    from msprobe.experiment.results import new_experiment
    from msprobe.repeat.answer import FILE
    from msprobe.repeat.experiment import Repetition
    from msprobe.repeat.experiment import repeat as repeated

    folder = Path(output).absolute()
    asked = Repetition(_command(command), folder, runs, stop, limit, max_runs)
    new_experiment(folder, FILE, ("run_*", "trials", "step_*"), force=force)
    return repeated(asked)


def resume(
    command: str | Sequence[str],
    at: int,
    output: StrPath = "./resume",
    *,
    resumed: str | Sequence[str] | None = None,
    after: int = 3,
    limit: float | None = None,
    force: bool = False,
) -> Resumed:
    """Does a training that is stopped before step `at` and resumed go on as if it never was? (docs/resume.md)

    command, output, limit, force: as repeat() has them. resumed: the command that resumes it, with
    "{checkpoint}" or "{checkpoint_folder}" where it is told; None: the same. after: steps that are compared.
    """
    from msprobe.experiment.results import new_experiment
    from msprobe.resume.answer import FILE
    from msprobe.resume.experiment import Resume
    from msprobe.resume.experiment import resume as experiment

    folder, straight = Path(output).absolute(), _command(command)
    asked = Resume(straight, straight if resumed is None else _command(resumed), folder, at, after, limit)
    new_experiment(folder, FILE, ("straight", "stopped", "resumed", "kept", "restored"), force=force)
    return experiment(asked)


def hunt(
    reference: str | Sequence[str],
    target: str | Sequence[str],
    output: StrPath = "./hunt",
    *,
    stop: int | None = None,
    limit: float | None = None,
    max_runs: int = 20,
    force: bool = False,
) -> Hunted:
    """Why do two trainings diverge? Runs both, and proves the cause by running without it (docs/hunt.md).

    reference, target: commands; the rest as repeat() has it. Without `force`, a hunt of the same commands
    that was interrupted goes on.
    """
    from msprobe.experiment.results import new_experiment
    from msprobe.hunt.answer import FILE
    from msprobe.hunt.hunting import hunt as hunted
    from msprobe.hunt.hunting import is_of_other_commands
    from msprobe.hunt.runs import SIDES, Hunt

    folder = Path(output).absolute()
    asked = Hunt(_command(reference), _command(target), folder, stop, limit, max_runs)
    if force or is_of_other_commands(asked):
        new_experiment(folder, FILE, SIDES, force=force)
    return hunted(asked)


def _command(command: str | Sequence[str]) -> Command:
    from msprobe.experiment.command_line import command_of, parse_command

    return parse_command(command) if isinstance(command, str) else command_of(list(command))
