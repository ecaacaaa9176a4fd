# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""digest.rank{R}.jsonl: a checksum of everything that a step begins with and leaves behind, a line per step;
and where two such records diverge.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.experiment.along_the_training import AlongTheTraining
from msprobe.files.append_file import append_lines
from msprobe.files.loss_files import losses_of
from msprobe.files.regular_file import read_text
from msprobe.native import InvalidArgument, torch_adapter
from msprobe.training.torch_state import memory_of, random_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KINDS = (
    "initial weights",
    "random generators",
    "inputs",
    "loss",
    "gradients",
    "optimizer",
    "weights",
    "buffers",
)
"""In the order in which they come about."""

_MAY_BE_UNSEEN = ("initial weights", "inputs")
"""Of a run that was resumed, and of a model that torch.compile compiled."""

_FILE = re.compile(r"digest\.rank([0-9]{1,9})\.jsonl")


# ---- recording


class DigestRecorder(AlongTheTraining):
    """Writes a line for each step."""

    name = "digests"

    def __init__(self, folder: Path, rank: int) -> None:
        super().__init__()
        self._path = folder / f"digest.rank{rank}.jsonl"
        self._line: dict[str, Any] = {}
        self._inputs: dict[str, str] = {}  # since the last step ended: calls may be seen before a step begins
        self._optimizer: dict[str, str] = {}
        self._schedules: dict[str, str] = {}
        self._parameters: list[tuple[str, Any]] = []  # as the last step left them

    def begin_step(self, step: int) -> None:
        super().begin_step(step)
        self._line = {"step": step, "random generators": {n: ask() for n, ask in random_states().items()}}
        if step == 0:
            self._line["initial weights"] = checksums(self.weights())

    def end_step(self, step: int) -> None:
        parameters = self._parameters = self.named("parameters")
        self._line.update(
            inputs=self._inputs,
            optimizer=self._optimizer,
            schedules=self._schedules,
            gradients=checksums((name, one.grad) for name, one in parameters if one.grad is not None),
            weights=checksums(parameters),
            buffers=checksums(self.named("buffers")),
        )
        append_lines(self._path, json.dumps(self._line) + "\n")
        self._line, self._inputs, self._optimizer = {}, {}, {}
        super().end_step(step)

    def called(self, args: Any, kwargs: Any) -> None:
        with contextlib.suppress(Exception):  # a difference that is not seen here is seen in the loss
            super().called(args, kwargs)

    def given(self, place: str, tensor: Any) -> None:
        self._inputs[place] = checksum(tensor)

    def before_update(self, optimizer: Any) -> None:
        """What it will compute with, beside gradients and weights."""
        names = {id(tensor): name for name, tensor in self._parameters}
        if any(id(one) not in names for group in optimizer.param_groups for one in group["params"]):
            self._parameters = self.named("parameters")
            names = {id(tensor): name for name, tensor in self._parameters}
        for number, group in enumerate(optimizer.param_groups):
            if "initial_lr" in group:
                self._schedules[f"groups.{number}"] = repr(group["initial_lr"])
            for place, parameter in enumerate(group["params"]):  # one may be no model's
                names.setdefault(id(parameter), f"groups.{number}.params.{place}")
            for key, value in group.items():
                if key not in ("params", "foreach", "fused", "capturable", "initial_lr"):
                    is_tensor = hasattr(value, "numel")
                    self._optimizer[f"groups.{number}.{key}"] = checksum(value) if is_tensor else repr(value)
        held = [
            (f"{names[id(parameter)]}.{key}", value)
            for parameter, state in optimizer.state.items()
            for key, value in state.items()
            if hasattr(value, "numel")
        ]
        found = checksums(held)
        self._optimizer.update((name, f"{value.dtype} {found[name]}") for name, value in held)


def checksum(tensor: Any) -> str:
    return checksums([("", tensor)])[""]


def checksums(tensors: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """By name."""
    import torch

    plain, strided = (torch.Tensor, torch.nn.Parameter), torch.strided
    named = list(tensors)
    disabled: Any = torch._C.DisableTorchFunction
    with disabled(), torch.no_grad():
        memories = [
            one if type(one) in plain and one.layout is strided else memory_of(one.detach())[0]
            for _, one in named
        ]
        found = torch_adapter().checksums([one for one in memories if not one.is_meta])
    numbers = map("{:08x}".format, found)
    return {name: "meta" if one.is_meta else next(numbers) for (name, _), one in zip(named, memories)}


# ---- reading


@dataclass(frozen=True)
class Parting:
    """The first thing in which two runs are not equal to the bit."""

    step: int
    rank: int
    kind: str
    """One of KINDS, or "steps": one of them ends there."""
    names: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[int, int]:
        """By which they are ordered: the step, and the kind within it."""
        return self.step, (*KINDS, "steps").index(self.kind)

    @property
    def said(self) -> str:
        if self.kind == "steps":
            return f"one of them ends before step {self.step}"
        names = ", ".join(self.names[:3]) + (
            f" and {len(self.names) - 3} more" if len(self.names) > 3 else ""
        )
        at = f"step {self.step}" + (f", rank {self.rank}" if self.rank else "")
        return f"{at}: {self.kind}" + (f" ({names})" if names and self.kind != "loss" else "")


def read_digests(folder: Path) -> dict[int, list[dict[str, Any]]]:
    """By rank. What a killed process left half is left out."""
    result: dict[int, list[dict[str, Any]]] = {}
    losses = losses_of(folder)
    for path in sorted(folder.iterdir()):
        found = _FILE.fullmatch(path.name)
        if found is None:
            continue
        lines = []
        for line in read_text(path).splitlines():
            with contextlib.suppress(ValueError):
                lines.append(json.loads(line))
        rank = int(found[1])
        for line, loss in zip(lines, losses.get(rank, {}).values()):
            line["loss"] = {"loss": loss}
        result[rank] = lines
    return result


def first_parting(
    one: Path,
    other: Path,
    *,
    ignores: tuple[str, ...] = (),
    steps: tuple[int, int | None] = (0, None),
    shift: int = 0,
) -> Parting | None:
    """None: equal to the bit in every step of `steps` (the first, and the one behind the last).

    ignores: kinds. shift: step S of `one` is step S - shift of `other`, which was resumed. Raises
    InvalidArgument where they have other numbers of processes.
    """
    a, b = read_digests(one), read_digests(other)
    if a.keys() != b.keys():
        raise InvalidArgument(
            f"{other}: expected as many processes that train as {one} has, {len(a)}, found {len(b)}"
        )
    partings = []
    for rank in sorted({*a, *b}):
        mine, theirs = _by_step(a.get(rank, [])), _by_step(b.get(rank, []), shift)
        last = steps[1] if steps[1] is not None else max([*mine, *theirs], default=-1) + 1
        for step in range(steps[0], last):
            found = _parting(step, rank, mine.get(step), theirs.get(step), ignores)
            if found is not None:
                partings.append(found)
                break
    return min(partings, key=lambda one: one.place, default=None)


def _by_step(lines: list[dict[str, Any]], shift: int = 0) -> dict[int, dict[str, Any]]:
    return {line["step"] + shift: line for line in lines}


def _parting(step: int, rank: int, a: Any, b: Any, ignores: tuple[str, ...]) -> Parting | None:
    if a is None or b is None:
        return None if a is b else Parting(step, rank, "steps")
    for kind in KINDS:
        mine, theirs = a.get(kind, {}), b.get(kind, {})
        if kind in ignores or mine == theirs or (kind in _MAY_BE_UNSEEN and not (mine and theirs)):
            continue
        names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
        if kind == "random generators":  # one that only one run has
            names = [name for name in names if name in mine and name in theirs]
        if names:
            return Parting(step, rank, kind, tuple(names))
    return None


def random_states_of(runs: Sequence[Path], parting: Parting) -> list[str]:
    """The generators whose states differ between two runs at the beginning of the step that parts."""
    states: list[dict[str, str]] = []
    for folder in runs:
        lines = read_digests(folder).get(parting.rank, [])
        states.append(next((one["random generators"] for one in lines if one["step"] == parting.step), {}))
    return [name for name in states[0] if name in states[1] and states[0][name] != states[1][name]]


def schedules_of(folder: Path) -> dict[str, str]:
    """What a scheduler multiplies, by the group of the optimizer; empty: there is none."""
    lines = read_digests(folder).get(0, [])
    return next((line["schedules"] for line in lines if line.get("schedules")), {})


def drawn_apart(runs: Sequence[Path], parting: Parting) -> list[str]:
    """Those of them that somebody draws from in this step, in the first run."""
    states = {line["step"]: line["random generators"] for line in read_digests(runs[0]).get(parting.rank, [])}
    now, then = states.get(parting.step, {}), states.get(parting.step + 1, {})
    return [name for name in random_states_of(runs, parting) if then.get(name, "") != now.get(name)]


def noise_of_losses(folders: Sequence[Path]) -> list[tuple[int, float]]:
    """For each step the largest relative difference of the losses of the runs."""
    series = [
        [float(text) if text else 0.0 for text in losses_of(folder).get(0, {}).values()] for folder in folders
    ]
    result = []
    for step, values in enumerate(zip(*series)):
        size = max(abs(value) for value in values)
        result.append((step, (max(values) - min(values)) / size if size else 0.0))
    return result
