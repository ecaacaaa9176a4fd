# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The first call of a step that gives other bits in two dumps of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msprobe.compare.culprit import parse_frame
from msprobe.files.regular_file import is_there, read_text
from msprobe.files.run_folder import DUMP
from msprobe.native import FormatError, core

if TYPE_CHECKING:
    import os


@dataclass(frozen=True)
class FirstCall:
    name: str
    """Of the record: "Functional.dropout.0.forward"."""
    step: int
    rank: int
    at: str = ""
    """ "train.py:12"; empty: not known."""
    equal_inputs: bool = True
    """What goes in is equal to the bit; else it is the first call that gets other inputs."""
    only_in_one: bool = False
    """The other run does not make it."""

    @property
    def operator(self) -> str:
        """ "dropout" of "Functional.dropout.0.forward"; of a module the path of it."""
        words = self.name.split(".")
        return ".".join(words[1:-3]) if words[0] == "Module" else words[1] if len(words) > 1 else self.name

    @property
    def said(self) -> str:
        at = f" at {self.at}" if self.at else ""
        if self.only_in_one:
            return f"{self.name}{at} is called in one run alone"
        how = "gives other bits for equal inputs" if self.equal_inputs else "gets other inputs"
        return f"{self.name}{at} {how}"


def first_call(one: Path, other: Path, step: int, rank: int) -> FirstCall | None:
    """Of the runs in these folders. None: the step is not in both dumps, or equal there.

    Raises FormatError.
    """
    folders = [_dump(folder, step, rank) for folder in (one, other)]
    if folders[0] is None or folders[1] is None:
        return None
    a, b = (_json(folder / "dump.json").get("data", {}) for folder in folders if folder is not None)
    stacks = core.default_stack_path(folders[0] / "dump.json")

    def found(name: str, **what: bool) -> FirstCall:
        return FirstCall(name, step, rank, _line_of_user(stacks, name), **what)

    given: FirstCall | None = None
    module: FirstCall | None = None
    for name in [*a, *(name for name in b if name not in a)]:
        mine, theirs = a.get(name), b.get(name)
        if mine == theirs or not _is_call(name):
            continue
        if mine is None or theirs is None:
            return given or module or found(name, only_in_one=True)
        if _inputs(mine) != _inputs(theirs):
            given = given or found(name, equal_inputs=False)
            if module is not None or not name.startswith("Module."):
                return module or given
        elif name.startswith("Module."):  # a call inside of it is nearer
            module = module or found(name)
        else:
            return found(name) if given is None else given
    return module or given


def tags_of(operator: str) -> set[str]:
    """torch's own: "nondeterministic_seeded" draws random numbers, "nondeterministic_bitwise" need not repeat
    itself. Empty where torch has no operator of that name.
    """
    import torch

    packet = getattr(torch.ops.aten, operator.strip("_"), None) or getattr(torch.ops.aten, operator, None)
    if packet is None:
        return set()
    found: set[str] = set()
    for overload in packet.overloads():
        found |= {tag.name for tag in getattr(packet, overload).tags}
    return found


def _is_call(name: str) -> bool:
    return name.rpartition(".")[2] in ("forward", "backward") or name.rpartition(".")[2].isdigit()


def _inputs(record: dict[str, Any]) -> list[Any]:
    return [record.get(part) for part in ("input_args", "input_kwargs", "input", "parameters")]


def _dump(folder: Path, step: int, rank: int) -> Path | None:
    place = folder / DUMP / f"step{step}"
    return next((one for one in (place / f"rank{rank}", place / "rank") if is_there(one / "dump.json")), None)


def _line_of_user(stacks: str | os.PathLike[str] | None, name: str) -> str:
    """The innermost line of the user's code that calls a record; empty: it is not known."""
    frames = map(parse_frame, core.stack_frames(stacks, name) if stacks is not None else ())
    own = next((frame for frame in frames if frame.file and frame.is_of_user), None)
    return "" if own is None else f"{PurePosixPath(str(own.file)).name}:{own.line}"


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: cannot be read: {error}") from error
    return content if isinstance(content, dict) else {}
