# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""run.rank{R}.json: what was run, and what was recorded of it (docs/formats/run.md)."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from msprobe.files.atomic_file import make_directory, write_text
from msprobe.files.credentials import concealed_in, concealed_words
from msprobe.files.regular_file import open_to_write, read_text
from msprobe.files.run_folder import (
    CONFIG_PACK,
    CONFIG_PARTS,
    DUMP,
    FREE_BENCHMARK,
    GRADIENTS,
    MONITOR,
    PERTURB,
    RUN_FILE,
)
from msprobe.native import InvalidArgument, __version__, torch_adapter
from msprobe.recording.launch import int_of
from msprobe.training.model_parts import parameters, unwrapped

if TYPE_CHECKING:
    from pathlib import Path

    from msprobe.recording.recorded_training import Seen
    from msprobe.recording.settings import RunSettings


def rank_of_process() -> int:
    """Of torch.distributed; before it is initialised what the launcher says, 0 without one."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int_of("RANK")


def processes_of_job() -> int:
    """As the launcher says; 1 without one."""
    return max(int_of("WORLD_SIZE"), 1)


def earlier_run(settings: RunSettings) -> Path | None:
    """The file of a run that is in the folder already, and does not go on with this one."""
    folder = settings.output
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None
    paths = (folder / name for name in names if RUN_FILE.fullmatch(name))
    return next((path for path in paths if not _goes_on(settings, path)), None)


_LEFT = ("run.rank*.json", "losses.rank*.csv", "digest.rank*.jsonl", "*.rank*.step*.safetensors")


def remove_run(folder: Path) -> None:
    """Only what a run leaves: other files of the user stay. Raises InvalidArgument."""
    folders = (DUMP, GRADIENTS, MONITOR, PERTURB, FREE_BENCHMARK, CONFIG_PARTS)
    try:
        for path in sorted(folder.iterdir()):
            if path.name in folders and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name == CONFIG_PACK or any(map(path.match, _LEFT)):
                path.unlink()
    except OSError as error:
        raise InvalidArgument(f"{folder}: the earlier run cannot be removed: {error.strerror}") from error


def _goes_on(settings: RunSettings, path: Path) -> bool:
    if not settings.goes_on:
        return False
    try:
        asked = json.loads(read_text(path)).get("asked", {})
        return tuple(asked.get("parts", ())) == settings.parts
    except (OSError, ValueError, AttributeError, TypeError):
        return False


class RunFile:
    """The file of this process. It is there from the beginning on, so that no other run takes the folder."""

    def __init__(
        self,
        settings: RunSettings,
        program: list[str],
        started_as: list[str] | None = None,
        *,
        framework: str = "torch",
        rank: int | None = None,
    ) -> None:
        """Raises InvalidArgument when another process or run has this rank of the folder, and IoError.

        program: what was run: the words behind `python`. started_as: those of `msprobe run` before it.
        framework: whose version is told. rank: where torch.distributed does not have it.
        """
        self._settings = settings
        self._framework = framework
        self._rank = rank_of_process() if rank is None else rank
        self._started = _now()
        self._program = concealed_words(program)
        self._started_as = None if started_as is None else concealed_words(started_as)
        self._folder = os.getcwd()
        self.path = make_directory(settings.output) / f"run.rank{self._rank}.json"
        if self.path.exists() and _goes_on(settings, self.path):
            return
        try:
            open_to_write(self.path, is_new=True).close()
        except FileExistsError:
            raise InvalidArgument(
                f"{self.path}: is of an earlier run or another process; expected a folder of its own for "
                "each run"
            ) from None
        except OSError as error:
            raise InvalidArgument(f"{self.path}: cannot be written: {error.strerror}") from error

    @property
    def rank(self) -> int:
        return self._rank

    def write(self, outcome: str, seen: Seen, recorded: dict[str, str]) -> None:
        """outcome: "running", "ended", "exit code 3", "KeyError", ... Raises IoError."""
        content = {
            "format": 1,
            "msprobe": __version__,
            "program": self._program,
            "started_as": self._started_as,
            "folder": self._folder,
            "rank": self._rank,
            "world_size": os.environ.get("WORLD_SIZE", "1"),
            "python": sys.version.split()[0],
            self._framework: str(getattr(sys.modules.get(self._framework), "__version__", "")),
            "started": self._started,
            "ended": None if outcome == "running" else _now(),
            "outcome": outcome,
            "models": seen.described or [_described(model) for model in seen.models],
            "optimizers": seen.optimizers,
            "steps": seen.steps,
            "optimizer_steps": seen.optimizer_steps,
            "first_step": seen.first_step,
            "forward_only": seen.forward_only,
            "asked": {
                "steps": list(self._settings.steps),
                "level": self._settings.level,
                "parts": list(self._settings.parts),
            },
            "recorded": recorded,
            "notes": [concealed_in(note) for note in seen.notes],
        }
        write_text(self.path, json.dumps(content, indent=1) + "\n")


def _described(model: Any) -> dict[str, Any]:
    return {"class": type(unwrapped(model)).__name__, "parameters": _parameter_count(model)}


def _parameter_count(model: Any) -> int:
    with torch_adapter().NoModes():
        return sum(int(parameter.numel()) for parameter in parameters(model) if not _has_no_size(parameter))


def _has_no_size(parameter: Any) -> bool:
    import torch

    return isinstance(parameter, torch.nn.UninitializedParameter)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
