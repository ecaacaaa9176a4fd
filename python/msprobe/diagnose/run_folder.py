# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What there is of a run: in a folder of `msprobe run`, or anywhere in any folder."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.diagnose.forward_only import Gaps, gaps_of
from msprobe.files.dump_folders import DUMPS, RANK, STEP
from msprobe.files.loss_files import is_loss_file
from msprobe.files.regular_file import PACKED_STEP, open_to_read
from msprobe.files.run_folder import PACKED_GRADIENTS, RUN_FILE
from msprobe.native import InvalidArgument
from msprobe.recording.launch import words_of_program

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_FOLDERS = 1000  # looked at
_DEPTH = 2
_LARGEST_RUN_FILE = 1 << 20
_LOGS = (".log", ".out", ".jsonl")
_OTHER_LOGS = ("trainer_state.json", "metrics.csv", "loss.csv", "loss.txt", "train.txt")
_CHECKPOINT_MARKS = ("latest_checkpointed_iteration.txt", ".metadata", "model.safetensors.index.json")
_CHECKPOINT_FILES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")


@dataclass
class RunFolder:
    """The parts of one run; None or empty: there is none."""

    path: Path
    dump: Path | None = None
    gradients: Path | None = None
    pack: Path | None = None
    checkpoint: Path | None = None
    losses: list[Path] = field(default_factory=list)
    program: list[str] = field(default_factory=list)
    """What `msprobe run` was given, the words behind `python`."""
    started_as: list[str] = field(default_factory=list)
    """The words before the program: `torchrun --nproc-per-node 2 -m msprobe run --level L0`; empty: it is not
    known.
    """
    folder: str = ""
    """Where it was started."""
    processes: int = 0
    """That trained together; 0: not known."""
    ranks: set[int] = field(default_factory=set)
    """Those with a run.rank{R}.json."""
    unread: set[int] = field(default_factory=set)
    """Those of which it cannot be read."""
    running: set[int] = field(default_factory=set)
    """Those that did not end."""
    notes: list[str] = field(default_factory=list)
    forward_only: dict[int, Gaps] = field(default_factory=dict)
    """By rank."""

    @property
    def parts(self) -> list[str]:
        """In words, for messages."""
        found = {
            "a config pack": self.pack,
            "a checkpoint": self.checkpoint,
            "losses": self.losses,
            "gradients": self.gradients,
            "a dump": self.dump,
        }
        return [words for words, part in found.items() if part]

    def command(self, output: str, *options: str) -> str:
        """What records this run again; it goes to the folder where that was started, where there is one."""
        before = ""
        if self.folder and os.path.isdir(self.folder) and not os.path.samefile(self.folder, "."):
            before, output = f"cd {shlex.quote(self.folder)} && ", os.path.abspath(output)
        started = self.started_as or [*self._launcher, "run"]
        words = [*started, "-o", output, *options, *self.program]
        return before + shlex.join(words) + ("" if self.program else " train.py ARGUMENTS")

    @property
    def training(self) -> list[str]:
        """What ran, without msprobe."""
        place = next((at for at, word in enumerate(self.started_as) if word == "msprobe"), None)
        if place is None or "--ranks" in self.started_as:  # msprobe itself started the processes
            return words_of_program(self._launcher, self.program)
        started = self.started_as[: place + 1]
        return words_of_program(started, self.program)

    @property
    def _launcher(self) -> list[str]:
        if self.processes > 1:
            return ["torchrun", "--nproc-per-node", str(self.processes), "-m", "msprobe"]
        return ["msprobe"]


def find_run(path: Path) -> RunFolder:
    """Looks at names, two levels deep; only the file of `msprobe run` is read. Raises InvalidArgument."""
    if not path.is_dir():
        fault = "expected the folder of a run, found a file" if path.exists() else "does not exist"
        raise InvalidArgument(f"{path}: {fault}")
    run = RunFolder(path)
    folders = list(_folders(path))
    _expect_one_run(path, folders)
    for folder, names in folders:
        if run.dump is None and _is_dump(folder, names):
            run.dump = folder
        if run.gradients is None and _is_gradient_record(folder, names):
            run.gradients = folder
        if run.checkpoint is None and _is_checkpoint(folder, names):
            run.checkpoint = _of_checkpoint(folder, names)
        # Until all processes have ended, a pack is in parts beside it.
        packs = [name.removesuffix(".parts") for name in names if name.endswith((".zip", ".zip.parts"))]
        packs = [name for name in packs if "config" in name]
        if run.pack is None and packs:
            run.pack = folder / packs[0]
        if not run.losses:
            run.losses = _losses(folder, names)
        for name in filter(RUN_FILE.fullmatch, names):
            _read_run_file(run, folder / name)
    return run


def _expect_one_run(path: Path, folders: list[tuple[Path, list[str]]]) -> None:
    """Parts of several runs would be put together as those of one."""
    runs = [folder for folder, names in folders if any(map(RUN_FILE.fullmatch, names))]
    if len(runs) > 1 and path not in runs:
        named = ", ".join(str(folder) for folder in runs[:3])
        more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
        raise InvalidArgument(f"{path}: there are {len(runs)} runs in it: {named}{more}; name one of them")


def _folders(path: Path) -> Iterator[tuple[Path, list[str]]]:
    """The folder itself first; not what is inside of a dump or record."""
    waiting = [(path, 0)]
    for _ in range(_MOST_FOLDERS):
        if not waiting:
            return
        folder, depth = waiting.pop(0)
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        yield folder, names
        if depth < _DEPTH and not any(STEP.fullmatch(name) or RANK.fullmatch(name) for name in names):
            waiting += [(folder / name, depth + 1) for name in names if _is_own_folder(folder / name)]


def _is_own_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_dump(folder: Path, names: list[str]) -> bool:
    """Of a run, a step, or one rank, as `msprobe compare` takes them."""
    ranks = [folder / name for name in filter(RANK.fullmatch, names)]
    for step in filter(STEP.fullmatch, names):
        ranks += [folder / step / name for name in filter(RANK.fullmatch, _names_in(folder / step))]
    files = {*DUMPS, PACKED_STEP}
    return not {DUMPS[0], PACKED_STEP}.isdisjoint(names) or any(
        files.intersection(_names_in(r)) for r in ranks
    )


def _is_gradient_record(folder: Path, names: list[str]) -> bool:
    return any(
        name.startswith("grad_summary_") or name == PACKED_GRADIENTS
        for rank in filter(RANK.fullmatch, names)
        for name in _names_in(folder / rank)
    )


def _is_checkpoint(folder: Path, names: list[str]) -> bool:
    return any(name in _CHECKPOINT_MARKS or name.endswith(_CHECKPOINT_FILES) for name in names)


def _of_checkpoint(folder: Path, names: list[str]) -> Path:
    """A folder with marks is read as a whole; else one file is."""
    files = [name for name in names if name.endswith(_CHECKPOINT_FILES)]
    marked = any(name in _CHECKPOINT_MARKS for name in names)
    return folder / files[0] if len(files) == 1 and not marked else folder


def _losses(folder: Path, names: list[str]) -> list[Path]:
    ours = [folder / name for name in names if is_loss_file(name)]
    logs = [folder / name for name in names if name.endswith(_LOGS) or name in _OTHER_LOGS]
    return ours or logs


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read_run_file(run: RunFolder, path: Path) -> None:
    """Only helps: what cannot be read leaves nothing out but suggestions."""
    match = RUN_FILE.fullmatch(path.name)
    assert match is not None
    rank = int(match[1])
    run.ranks.add(rank)
    content: Any = None
    with contextlib.suppress(OSError, ValueError, RecursionError), open_to_read(path) as file:
        content = json.loads(file.read(_LARGEST_RUN_FILE))
    if not isinstance(content, dict):
        run.unread.add(rank)
        return
    if content.get("outcome") == "running":
        run.running.add(rank)
    if "forward_only" in content:
        run.forward_only[rank] = gaps_of(content["forward_only"])
    program = content.get("program")
    if isinstance(program, list) and all(isinstance(word, str) for word in program) and not run.program:
        run.program = program
    if isinstance(content.get("folder"), str):
        run.folder = run.folder or content["folder"]
    started = content.get("started_as")
    if isinstance(started, list) and all(isinstance(word, str) for word in started) and not run.started_as:
        run.started_as = started
    with contextlib.suppress(TypeError, ValueError):
        run.processes = run.processes or int(content.get("world_size") or 0)
    notes = content.get("notes")
    if isinstance(notes, list):
        run.notes += [str(note)[:300] for note in notes[:20] if str(note)[:300] not in run.notes]
