# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""How `msprobe run` was started, so that what to try next can be typed as it is printed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_LAUNCHERS = frozenset(
    (
        *("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "horovodrun", "msrun"),
        *("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"),
    )
)
_MOST_ANCESTORS = 16


def words_before_run(command: str = "run") -> list[str]:
    """The words up to `msprobe`: ["msprobe"], ["python", "-m", "msprobe"], or those of the launcher:
    ["torchrun", "--nproc-per-node", "2", "-m", "msprobe"].
    """
    own = list(getattr(sys, "orig_argv", [])) or ["msprobe", command]
    launcher = next(
        (words for words in reversed(_lines_of_ancestors()) if _is_launcher(words, command)), None
    )
    found = _up_to_msprobe(launcher if launcher is not None else own, command)
    if launcher is None and int_of("WORLD_SIZE") > 1:
        return _torchrun_of_environment()
    return found or ["msprobe"]


def words_of_program(started: list[str], program: list[str]) -> list[str]:
    """The same program without msprobe: `started` is what words_before_run() gave."""
    words = started[:-1]
    if words[-1:] == ["--"]:
        words = words[:-1]
    flag = words[-1] if words[-1:] in (["-m"], ["--module"]) else ""
    words = words[:-1] if flag else words
    if program[:1] == ["-m"] and flag:
        program = [flag, *program[1:]]
    return [*(words or ["python"]), *program]


def _is_launcher(words: list[str], command: str) -> bool:
    place = _place_of_msprobe(words, command)
    return (
        any(os.path.basename(word) in _LAUNCHERS for word in words[: min(place, 4)]) if place > 0 else False
    )


def _up_to_msprobe(words: list[str], command: str) -> list[str]:
    place = _place_of_msprobe(words, command)
    if place < 0:
        return []
    before = words[:place]
    # A script of pip: its interpreter, then its path.
    if (
        len(before) > 1
        and _is_python(before[0])
        and os.path.isfile(before[1])
        and not before[1].endswith(".py")
    ):
        before = before[1:]
    if len(before) == 1 and _is_python(before[0]):  # msprobe itself is such a script
        before = []
    return [*(_typed(before[0]) for _ in before[:1]), *before[1:], "msprobe"]


def _place_of_msprobe(words: list[str], command: str) -> int:
    for place in range(len(words) - 1):
        if os.path.basename(words[place]) == "msprobe" and words[place + 1] == command:
            return place
    return -1


def _is_python(word: str) -> bool:
    return os.path.basename(word).startswith("python")


def _typed(program: str) -> str:
    """Its name, where a shell finds it by that."""
    name = os.path.basename(program)
    found = shutil.which(name)
    return name if found is not None and os.path.realpath(found) == os.path.realpath(program) else program


def _lines_of_ancestors() -> list[list[str]]:
    """The command lines of the processes above this one, the nearest first; none where there is no /proc."""
    lines: list[list[str]] = []
    process = os.getppid()
    try:
        for _ in range(_MOST_ANCESTORS):
            if process <= 1:
                break
            raw = Path(f"/proc/{process}/cmdline").read_bytes()
            lines.append([os.fsdecode(word) for word in raw.split(b"\0")[:-1]])
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return lines


def int_of(variable: str) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _torchrun_of_environment() -> list[str]:
    world, local = int_of("WORLD_SIZE"), int_of("LOCAL_WORLD_SIZE") or int_of("WORLD_SIZE")
    nodes = ["--nnodes", str(world // local)] if world > local else []
    return ["torchrun", *nodes, "--nproc-per-node", str(local), "-m", "msprobe"]
