# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the command of a user with a plan, in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.experiment.command_line import Command
from msprobe.experiment.own_folder import mirrored
from msprobe.experiment.plan import FILE, VARIABLE, Plan, write_plan
from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.json_file import read_object
from msprobe.files.regular_file import open_to_read, open_to_write, read_bytes
from msprobe.files.run_folder import RUN_FILE
from msprobe.native import Error, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTPUT = "output.txt"
"""What the command wrote on its standard output and error."""

_START = str(Path(__file__).parent / "start")
_DONE = "done.json"
_ENVIRONMENT = "env."
_KILLED_AFTER = 10  # seconds between being asked to end and being killed


@dataclass(frozen=True)
class Run:
    """A command that was run and ended well."""

    folder: Path
    steps: int
    seconds: float


def run_command(
    command: Command, plan: Plan, *, without: Path, limit: float | None, work: Path | None = None
) -> Run:
    """Runs it, and waits for its end.

    without: is not mirrored (own_folder.mirrored). limit: seconds after which it is killed. work: the working
    directory of an earlier run, in which this one goes on; None: one of its own.
    Raises InvalidArgument, in one sentence, where the command fails, takes too long or trains no step.
    """
    folder = make_directory(Path(plan.folder))
    write_plan(plan, folder / FILE)
    work = work or mirrored(command.folder, folder / "work", without)
    command = _with_changes(command, plan).placed(run=folder)
    begin = time.monotonic()
    code = _waited(command, work, folder, limit)
    said = f"{command.said}: "
    if code is None:
        raise InvalidArgument(f"{said}was ended after {limit:g} s (--limit); its output is {folder / OUTPUT}")
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise InvalidArgument(f"{said}failed with {how}: {_last_line(folder / OUTPUT)} ({folder / OUTPUT})")
    written = list(_run_files(folder))
    steps = max((int(content.get("steps", 0)) for content in written), default=0)
    if plan.stop is not None:  # the one that begins there is counted by the recorder, and does not take place
        steps = min(steps, plan.stop)
    if steps == 0:
        raise InvalidArgument(f"{said}trained no step that msprobe sees: {_last_line(folder / OUTPUT)}")
    _check_digests(folder, steps, said, [note for content in written for note in content.get("notes", ())])
    return Run(folder, steps, time.monotonic() - begin)


def _check_digests(folder: Path, steps: int, said: str, notes: list[str]) -> None:
    """Of all steps, but one that has begun and not ended: what is not there would seem to be equal."""
    counts = [len(read_bytes(path).splitlines()) for path in folder.glob("digest.rank*.jsonl")]
    if min(counts, default=0) >= max(steps - 1, 1):
        return
    why = notes[0] if notes else "no checksums were written"
    raise InvalidArgument(f"{said}not every step is recorded: {why}")


def run_once(command: Command, plan: Plan, *, without: Path, limit: float | None) -> tuple[Run, bool]:
    """The same, where it was not done before with the same command and plan: then its result is taken, and
    the second value is False. What an interrupted run left is removed.
    """
    folder = Path(plan.folder)
    asked = json.dumps({"command": command.said, "plan": asdict(plan)}, sort_keys=True)
    with contextlib.suppress(Error, ValueError, KeyError, TypeError):
        done = read_object(str(folder / _DONE), "a run that is complete")
        if done["asked"] == asked:
            return Run(folder, int(done["steps"]), float(done["seconds"])), False
    shutil.rmtree(folder, ignore_errors=True)
    run = run_command(command, plan, without=without, limit=limit)
    done = {"asked": asked, "steps": run.steps, "seconds": run.seconds}
    write_text(folder / _DONE, json.dumps(done) + "\n")
    return run, True


def work_of(run: Run, command: Command) -> Path:
    """The working directory that the command had."""
    return run.folder / "work" / command.folder.resolve().relative_to(command.folder.resolve().anchor)


def _waited(command: Command, work: Path, folder: Path, limit: float | None) -> int | None:
    """The exit code; None: it took too long."""
    with open_to_write(folder / OUTPUT) as output:
        process = subprocess.Popen(
            command.words,
            cwd=work,
            env=_environment(command, folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started and that is left of it."""
    with contextlib.suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_KILLED_AFTER)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _environment(command: Command, folder: Path) -> dict[str, str]:
    result = {**os.environ, **command.environment, VARIABLE: str(folder / FILE)}
    result.pop("MSPROBE_CONFIG", None)
    result.pop("PYTHONSAFEPATH", None)
    paths = [_START, *filter(None, [result.get("PYTHONPATH")])]
    result["PYTHONPATH"] = os.pathsep.join(paths)
    return result


def _with_changes(command: Command, plan: Plan) -> Command:
    """The variables of the environment among them are set before the command begins."""
    variables = {
        change.name[len(_ENVIRONMENT) :]: change.value
        for change in plan.changes
        if change.name.startswith(_ENVIRONMENT)
    }
    return command.with_environment(variables) if variables else command


def _run_files(folder: Path) -> Iterator[dict[str, Any]]:
    """What they hold, by name; of a process that was killed there may be none."""
    for path in sorted(folder.iterdir()):
        if RUN_FILE.fullmatch(path.name):
            with contextlib.suppress(Error):
                yield dict(read_object(str(path), "the file of a run"))


def _last_line(path: Path) -> str:
    with open_to_read(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")
