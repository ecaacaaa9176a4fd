# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Losses of two runs, of those that `msprobe run` wrote or out of the logs of a training."""

from __future__ import annotations

import contextlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msprobe.files.left_out import only_in
from msprobe.files.loss_files import is_loss_file, losses_in
from msprobe.files.noise_answer import NoiseAnswer
from msprobe.files.ranges import numbers
from msprobe.files.regular_file import open_text
from msprobe.native import IoError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from msprobe.files.left_out import LeftOut

# A difference relative to the loss that no rounding explains, whatever the dtype.
CLEAR = 0.01

# A loss is a mean over many values of a few roundings each, and every step of a training adds as much again.
# The loss of a step whose calls were compared may grow by so many times its own difference with every step
# that follows.
_ROUNDINGS = 64
_GROWTH = 4

# What a perturbed training expects is one sample of what may come: as in the verdict of dumps.
_ABOVE_EXPECTED = 3

_LARGEST_LOG = 256 << 20
_MOST_STEPS = 10_000_000
_NUMBER = r"([-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+|nan|inf(?:inity)?))"
_LOSS = re.compile(rf"(?<![a-z_])(?:lm[ _]|train(?:ing)?[ _/])?loss['\"]?\s*[:=]?\s*{_NUMBER}", re.IGNORECASE)
_STEP = re.compile(
    r"(?<![a-z])(?:global_?step|step|iteration|iter)['\"]?\s*[:=]?\s*([0-9]{1,12})", re.IGNORECASE
)
_STEP_KEYS = ("step", "global_step", "iteration", "iter")


@dataclass(frozen=True)
class Evidence:
    """What the dumps of both runs say of their losses."""

    roundoff: float = 2.0**-24
    """The coarsest unit roundoff of what the model computes; without a dump that of float32."""
    explained: frozenset[int] = frozenset()
    """Steps in which every recorded difference is rounding."""
    known: NoiseAnswer = field(default_factory=NoiseAnswer)
    """What two healthy runs are known to differ by."""


@dataclass(frozen=True)
class LossComparison:
    """Steps are those that both runs have."""

    steps: int
    first: int | None
    """The first step with another loss; None: all are equal."""
    first_clear: int | None
    """The first with a difference above CLEAR, or a NaN on one side."""
    a: dict[int, float]
    b: dict[int, float]
    first_beyond: int | None = None
    """The first with a difference beyond rounding; None: there is none."""

    def apart_at(self, step: int) -> float:
        return relative(self.a[step], self.b[step])

    @property
    def largest(self) -> tuple[float, int]:
        """The largest relative difference, and its step."""
        return max((relative(self.a[step], self.b[step]), step) for step in self.a.keys() & self.b.keys())


def read_losses(paths: Sequence[Path]) -> dict[int, float]:
    """Step -> loss of a log; of several the first that has any. Raises IoError."""
    for path in paths:
        with _reading(path), open_text(path) as file:
            text = file.read(_LARGEST_LOG)
        losses = _of_csv(text) or _of_json(text) or _of_text(text.splitlines())
        if losses:
            return losses
    return {}


def read_ranks(paths: Sequence[Path], offset: int = 0) -> dict[int, dict[int, float]]:
    """The losses of each rank; those of a log, which are of no rank, are those of rank 0. Raises IoError.

    offset: added to the steps of `msprobe run`, which count from 0 in each run; logs count on.
    """
    ours = [path for path in paths if is_loss_file(path.name)]
    if not ours:
        return {0: read_losses(paths)} if paths else {}
    with _reading(ours[0].parent):
        found = losses_in(ours)
    return {rank: _numbers(losses, offset) for rank, losses in sorted(found.items())}


def _numbers(losses: dict[int, str], offset: int) -> dict[int, float]:
    result: dict[int, float] = {}
    for step, loss in losses.items():
        _add(result, step + offset, loss)
    return result


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        result = IoError(f"{error.filename or path}: cannot be read: {error.strerror}")
        result.errno, result.filename = error.errno, str(error.filename or path)
        raise result from error


@dataclass(frozen=True)
class RanksComparison:
    """The losses of all ranks that both runs have."""

    ranks: dict[int, LossComparison]

    @property
    def steps(self) -> int:
        return max((one.steps for one in self.ranks.values()), default=0)

    @property
    def first(self) -> int:
        """The rank to look at: the first that is beyond rounding, and of those the farthest off at this step;
        without one, that with the largest difference.
        """
        beyond = {rank: one.first_beyond for rank, one in self.ranks.items() if one.first_beyond is not None}
        if not beyond:
            return max(self.ranks, key=lambda rank: self.ranks[rank].largest[0])
        step = min(beyond.values())
        return max(self.beyond_at(step), key=lambda rank: self.ranks[rank].apart_at(step))

    def beyond_at(self, step: int) -> list[int]:
        """The ranks whose loss is beyond rounding at this step for the first time."""
        return [rank for rank, one in self.ranks.items() if one.first_beyond == step]


def compare_ranks(
    a: dict[int, dict[int, float]], b: dict[int, dict[int, float]], evidence: Evidence | None = None
) -> RanksComparison:
    """Of the ranks with a step in common. evidence: as in compare_losses()."""
    found = {
        rank: compare_losses(a[rank], b[rank], evidence)
        for rank in a
        if rank in b and a[rank].keys() & b[rank]
    }
    return RanksComparison(found)


def alone(
    a: dict[int, dict[int, float]], b: dict[int, dict[int, float]], first_step: int, *, every_step: bool
) -> Iterator[LeftOut]:
    """The ranks and steps of which one run has a loss. first_step: where the later of the two begins.
    every_step: both write down each step; else, as in logs, only what lies before or behind what both have.
    """
    for side, ours, theirs in (("reference", a, b), ("target", b, a)):
        for rank, losses in ours.items():
            others = theirs.get(rank, {})
            if losses and not others:
                yield only_in(side, rank=rank)
                continue
            common = losses.keys() & others.keys()
            within = (min(common), max(common)) if common else (0, -1)
            steps = [
                step
                for step in losses.keys() - others.keys()
                if step >= first_step and (every_step or not within[0] <= step <= within[1])
            ]
            if steps:
                yield only_in(side, rank=rank, name=numbers("step", steps))


def compare_losses(
    a: dict[int, float], b: dict[int, float], evidence: Evidence | None = None
) -> LossComparison:
    common = sorted(a.keys() & b.keys())
    first = next((step for step in common if not _equal(a[step], b[step])), None)
    clear = next((step for step in common if relative(a[step], b[step]) > CLEAR), None)
    return LossComparison(len(common), first, clear, a, b, _beyond(common, a, b, evidence or Evidence()))


def _beyond(steps: list[int], a: dict[int, float], b: dict[int, float], evidence: Evidence) -> int | None:
    known, since = 0.0, 0  # the difference of the last step that is explained, and how long ago it was
    for place, step in enumerate(steps):
        # A likelihood goes through 0: measured against how far it came, where that is more than it is.
        apart = relative(a[step], b[step], a[step] - a[steps[0]])
        if step in evidence.explained:
            known, since = max(known, apart), 0
            continue
        since += 1
        own = min(_ROUNDINGS * evidence.roundoff * (place + 1), CLEAR)
        expected = _ABOVE_EXPECTED * evidence.known.loss_at(step)
        if apart > max(own, expected, _GROWTH * known * since):
            return step
    return None


def relative(a: float, b: float, other: float = 0.0) -> float:
    """The difference relative to the largest; infinite where only one of a and b is finite."""
    if _equal(a, b):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b), abs(other) if math.isfinite(other) else 0.0)


def _equal(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def _of_csv(text: str) -> dict[int, float]:
    """With a header that has a step and a loss."""
    lines = text.splitlines()
    names = [name.strip().strip('"').lower() for name in lines[0].split(",")] if lines else []
    step = next((names.index(key) for key in _STEP_KEYS if key in names), None)
    loss = next((names.index(key) for key in ("loss", "train_loss", "lm loss") if key in names), None)
    if step is None or loss is None:
        return {}
    result: dict[int, float] = {}
    for line in lines[1:]:
        cells = line.split(",")
        if len(cells) > max(step, loss):
            _add(result, cells[step], cells[loss])
    return result


def _of_json(text: str) -> dict[int, float]:
    """One object per line, or the trainer_state.json of Hugging Face."""
    result: dict[int, float] = {}
    entries: Iterable[Any] = ()
    if text.lstrip().startswith("{"):
        try:
            content = json.loads(text)
            entries = content.get("log_history", ()) if isinstance(content, dict) else ()
        except (ValueError, RecursionError):
            entries = map(_json_line, text.splitlines())
    for entry in entries:
        if isinstance(entry, dict) and "loss" in entry:
            step = next((entry[key] for key in _STEP_KEYS if key in entry), len(result))
            _add(result, step, entry["loss"])
    return result


def _json_line(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _of_text(lines: Iterable[str]) -> dict[int, float]:
    """Lines with "loss" and a number behind it; without a step they are counted."""
    result: dict[int, float] = {}
    for line in lines:
        loss = _LOSS.search(line[:10_000])
        if loss is None:
            continue
        step = _STEP.search(line[:10_000])
        _add(result, step[1] if step else len(result), loss[1])
    return result


def _add(result: dict[int, float], step: object, loss: object) -> None:
    """The first line of a step counts; what is no number is passed by."""
    try:
        number, value = int(str(step).strip().strip('"')), float(str(loss).strip().strip('"'))
    except ValueError:
        return
    if number >= 0 and len(result) < _MOST_STEPS:
        result.setdefault(number, value)
