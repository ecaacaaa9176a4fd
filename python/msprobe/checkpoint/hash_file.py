# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Files with the hashes of the parameters of a checkpoint, which compare in place of the checkpoint."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from msprobe.checkpoint.result import CheckpointSide
from msprobe.files.atomic_file import write_text
from msprobe.files.regular_file import open_to_read, read_text
from msprobe.native import FormatError, IoError, core

TYPE_CHECKING = False  # see msprobe/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable

_FORMAT = "msprobe checkpoint hashes"
_VERSION = 1
_LARGEST = 1 << 30
_HEAD = 4096
_HASH = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class ParameterHash:
    dtype: str
    shape: list[int]
    hash: str

    @property
    def count(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class HashFile:
    side: CheckpointSide
    parameters: dict[str, ParameterHash]


def hashes_of(
    side: CheckpointSide,
    checkpoint: core.Checkpoint,
    threads: int,
    progress: Callable[[int, int], None] | None,
) -> HashFile:
    hashes = checkpoint.hashes(threads=threads, progress=progress)
    return HashFile(
        side,
        {
            name: ParameterHash(dtype, list(shape), text)
            for (name, dtype, shape), text in zip(checkpoint.parameters, hashes)
        },
    )


def write_hash_file(path: Path, hashes: HashFile) -> None:
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "checkpoint": hashes.side.path,
        "iteration": hashes.side.iteration,
        "parameters": {name: asdict(one) for name, one in hashes.parameters.items()},
    }
    write_text(path, json.dumps(content, indent=1) + "\n")


def is_hash_file(path: str | os.PathLike[str]) -> bool:
    """By how it begins."""
    try:
        if not os.path.isfile(path):
            return False
        with open_to_read(path) as file:
            head = file.read(_HEAD)
    except OSError:
        return False  # whoever opens it says so
    return head.lstrip().startswith(b"{") and json.dumps(_FORMAT).encode() in head


def read_hash_file(path: str | os.PathLike[str]) -> HashFile:
    """Raises IoError, and FormatError for a file that is no such file."""
    try:
        content = json.loads(read_text(path, _LARGEST))
    except OSError as error:
        raise IoError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: expected JSON: {error}") from error
    parameters = content.get("parameters") if isinstance(content, dict) else None
    if not isinstance(parameters, dict) or content.get("format") != _FORMAT:
        raise FormatError(f'{path}: expected a file with "format": "{_FORMAT}" and "parameters"')
    if content.get("version") != _VERSION:
        raise FormatError(f'{path}: "version": expected {_VERSION}, found {content.get("version")!r}')
    hashes = {name: _hash_of(path, name, one) for name, one in parameters.items()}
    iteration = content.get("iteration")
    side = CheckpointSide(
        path=str(path),
        kind="hashes",
        iteration=iteration if isinstance(iteration, int) else None,
        parallel_sizes=(1, 1, 1, 1),
        parameters=len(hashes),
        bytes=0,
    )
    return HashFile(side, hashes)


def _hash_of(path: str | os.PathLike[str], name: str, value: object) -> ParameterHash:
    if isinstance(value, dict):
        dtype, shape, text = value.get("dtype"), value.get("shape"), value.get("hash")
        if (
            isinstance(dtype, str)
            and isinstance(shape, list)
            and all(isinstance(extent, int) and extent >= 0 for extent in shape)
            and isinstance(text, str)
            and _HASH.fullmatch(text)
        ):
            return ParameterHash(dtype, shape, text)
    raise FormatError(f"{path}: {name!r}: expected dtype, shape and a hash of 32 hexadecimal digits")
