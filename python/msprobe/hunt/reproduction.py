# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""What of a hunt goes into a report: the lines that mend the target, and a script of the call."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from msprobe.experiment.changes import room_of, setter_of, value_of
from msprobe.files.atomic_file import write_text
from msprobe.native import Error
from msprobe.terminal.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from msprobe.diagnose.cause import Cause
    from msprobe.experiment.plan import Change

CHANGE = "change.py"

_CALL = re.compile(r"((?!Module\.|Cell\.)[\w.]+\.\d+)\.(?:forward|backward)\b")
"""Of the name of a record: the call of an operator, which a script can make again."""


def write_change(folder: Path, changes: Sequence[tuple[Change, str]]) -> list[Path]:
    """The settings that mend the target, as lines of a script. changes: each with what it has now."""
    lines = [line for change, now in changes for line in _lines(change, now)]
    text = "# What has the target follow the reference, behind what makes its model and optimizer:\n"
    write_text(folder / CHANGE, text + "\n".join(lines) + "\n")
    return [folder / CHANGE]


def _lines(change: Change, now: str) -> list[str]:
    name, value = change.name.partition(".")[2], value_of(change.value)
    was = f"  # was {printable(now)}"
    room = room_of(change.name)
    if room == "optimizer":
        place, _, key = name.removeprefix("groups.").rpartition(".")
        groups = f"[optimizer.param_groups[{place}]]" if place else "optimizer.param_groups"
        if key == "initial_lr":
            return [
                f"for group in {groups}:  # before its scheduler is made",
                f"    group['lr'] = {value!r}{was}",
            ]
        return [f"for group in {groups}:", f"    group[{key!r}] = {value!r}{was}"]
    if room == "torch":
        if name == "deterministic":
            return [f"torch.use_deterministic_algorithms({bool(value)}){was}"]
        is_function = setter_of(name) is not None
        return [f"torch.set_{name}({value!r}){was}" if is_function else f"torch.{name} = {value!r}{was}"]
    if room == "compile":
        partial = f"functools.partial(torch.compile, backend={change.value!r})"
        return ["import functools", f"torch.compile = {partial}{was}; before the model is compiled"]
    if room == "clip":
        return [f"# the argument {name} of the function that clips gradients: {value!r}{was}"]
    if room != "module":
        return [f"# {printable(change.said)}{was}"]
    path, _, key = change.name.removeprefix("model.").rpartition(".")
    module = f"model.get_submodule({path!r})" if path else "model"
    if key == "requires_grad":
        holder, _, key = path.rpartition(".")
        module = f"model.get_submodule({holder!r}).{key}" if holder else f"model.{key}"
        return [f"{module}.requires_grad = {value!r}{was}"]
    return [f"{module}.{key} = {_code(value)}{was}"]


def _code(value: Any) -> str:
    """A function stands by its name."""
    return value if isinstance(value, str) and re.fullmatch(r"[a-z_]+(\.\w+)+", value) else repr(value)


def write_call(folder: Path, run: Path, suspected: Cause) -> list[Path]:
    """A script that makes the suspected call of `run` again; nothing where it is none of an operator, or
    cannot be made again.
    """
    found = _CALL.match(suspected.record)
    if found is None or suspected.is_of_reference:
        return []
    from msprobe.reproduce.reproduce import reproduce

    with contextlib.suppress(Error):
        return reproduce(str(run), found[1], str(folder), step=suspected.step, rank=suspected.rank)[:1]
    return []
