# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Reading the answer of `msprobe perturb` (docs/formats/perturb.md), or of `msprobe repeat`, where a
comparison takes it for a second run.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe.files.regular_file import read_text
from msprobe.native import FormatError, IoError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

VERDICT = "verdict.json"
REPEATED = "repeat.json"
FOLDER = "perturb"

_FORMAT = 1
_LARGEST = 256 << 20  # bytes


@dataclass(frozen=True)
class NoiseAnswer:
    """What two healthy runs may differ by."""

    amplification: dict[str, float] = field(default_factory=dict)
    """Name of a record -> roundings that it makes of one."""
    loss: dict[int, float] = field(default_factory=dict)
    """Step -> relative difference of the losses."""

    def loss_at(self, step: int) -> float:
        """Beyond the steps that are known it grows with each step as it does between them, and at least by
        what rounding alone makes. 0: nothing is known.
        """
        if not self.loss:
            return 0.0
        if step in self.loss:
            return self.loss[step]
        first, last = min(self.loss), max(self.loss)
        if step < last:
            return max(value for known, value in self.loss.items() if known <= max(step, first))
        grown = (self.loss[last] - self.loss[first]) / max(last - first, 1)
        return self.loss[last] + (step - last) * max(grown, self.loss[first])


def merged(answers: Iterable[NoiseAnswer]) -> NoiseAnswer:
    """The larger of each."""
    amplification: dict[str, float] = {}
    loss: dict[int, float] = {}
    for answer in answers:
        for name, value in answer.amplification.items():
            amplification[name] = max(value, amplification.get(name, 0.0))
        for step, value in answer.loss.items():
            loss[step] = max(value, loss.get(step, 0.0))
    return NoiseAnswer(amplification, loss)


def as_answer(loss: Iterable[tuple[int, float]]) -> dict[str, Any]:
    """The content of the file, of repeated runs. loss: step, relative difference of the losses."""
    entries = [{"step": step, "relative": value} for step, value in loss]
    return {"format": _FORMAT, "tool": "repeat", "amplification": {}, "expected_loss": entries}


def find_answers(path: Path) -> list[Path]:
    """The files verdict.json of a perturbed run: `path` itself, in the folder `path`, or in its folder
    "perturb", one for each rank. Empty: it is none.
    """
    if path.is_file():
        return [path] if path.name in (VERDICT, REPEATED) else []
    if (path / REPEATED).is_file():
        return [path / REPEATED]
    for folder in (path, path / FOLDER):
        files = [folder / VERDICT, *sorted(folder.glob(f"rank*/{VERDICT}"))]
        files = [file for file in files if file.is_file() and _is_answer(file)]
        if files:
            return files
    return []


def with_repeated_runs(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Behind the folder of `msprobe repeat` the runs in it, but the first: the others repeat that one."""
    result = []
    for path in map(Path, paths):
        result.append(path)
        if (path / REPEATED).is_file():
            result += [run for run in sorted(path.glob("run_*"))[1:] if (run / "dump").is_dir()]
    return result


def _is_answer(path: Path) -> bool:
    """Other commands have a verdict.json, too."""
    try:
        return isinstance(content := _content(path), dict) and content.get("tool") == "perturb"
    except (FormatError, IoError):
        return False


def read_answer(path: Path) -> NoiseAnswer:
    """Raises FormatError, IoError."""
    content = _content(path)
    if not isinstance(content, dict) or content.get("tool") not in ("perturb", "repeat"):
        raise FormatError(f"{path}: expected the answer of msprobe perturb or msprobe repeat")
    version = content.get("format")
    if version != _FORMAT:
        raise FormatError(f'{path}: "format": expected {_FORMAT}, found {version!r}')
    amplification = content.get("amplification")
    if not isinstance(amplification, dict):
        raise FormatError(f'{path}: "amplification": expected an object, found {_short(amplification)}')
    entries = content.get("expected_loss")
    if not isinstance(entries, list):
        raise FormatError(f'{path}: "expected_loss": expected a list, found {_short(entries)}')
    loss: dict[int, float] = {}
    for entry in entries:
        step = entry.get("step") if isinstance(entry, dict) else None
        if not isinstance(step, int) or isinstance(step, bool) or step < 0:
            raise FormatError(f'{path}: "expected_loss": expected objects with a step, found {_short(entry)}')
        loss[step] = _number(path, "expected_loss", entry.get("relative"))
    return NoiseAnswer(
        {name: _number(path, "amplification", value) for name, value in amplification.items()}, loss
    )


def _content(path: Path) -> Any:
    try:
        if path.stat().st_size > _LARGEST:
            raise FormatError(f"{path}: is larger than {_LARGEST >> 20} MiB")
        return json.loads(read_text(path))
    except OSError as error:
        raise IoError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: is no JSON: {error}") from error


def _number(path: Path, key: str, value: object) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:  # type: ignore[arg-type,operator]
        raise FormatError(f'{path}: "{key}": expected numbers of 0 or more, found {_short(value)}')
    return float(value)  # type: ignore[arg-type]


def _short(value: object) -> str:
    return repr(value)[:60]
