# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Which kind of file or folder is it?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.files.dump_folders import dump_file, holds_kernel_dump, numbered_dumps
from msprobe.files.regular_file import is_there, open_to_read
from msprobe.native import Error, InvalidArgument, IoError, UnsupportedError

if TYPE_CHECKING:
    from msprobe.sources.source import Source

_SAVED = (".pt", ".pth", ".bin", ".ckpt")
_KINDS = (
    "a .npy, .pt, .safetensors or .vis.db file, dump.json, stack.json, construct.json, a pack (.zip), "
    "another JSON file, a table (.csv), or a folder with a dump, a checkpoint or RL key data"
)


def open_source(path: str, step: int | None = None, rank: int | None = None) -> Source:
    """`step`, `rank`: of a folder of dumps. Raises IoError, FormatError, InvalidArgument and
    UnsupportedError.
    """
    where = Path(path)
    if where.is_dir():
        return _open_folder(path, step, rank)
    if not is_there(where):
        raise InvalidArgument(f"{path} does not exist, or is no regular file")
    return _open_file(path, where)


def _open_file(path: str, where: Path) -> Source:
    """Only what the kind needs is imported: the answer for a large file comes at once."""
    head = _head(path)
    name = where.name.lower()
    if name.endswith((".npy", ".safetensors", *_SAVED)) or head[:2] == b"\x80\x02":
        from msprobe.sources import tensor_sources

        if name.endswith(".ckpt") and head[:1] == b"\n":  # of MindSpore; torch.save begins otherwise
            return tensor_sources.CheckpointSource(path)
        return tensor_sources.open_file(path)
    if name in ("dump.json", "debug.json", "stack.json", "construct.json"):
        from msprobe.sources import dump_sources

        return dump_sources.open_file(path)
    if head.startswith(b"SQLite format 3\0") or name.endswith((".zip", ".json", ".csv")):
        from msprobe.sources import other_sources

        return other_sources.open_file(path, is_database=head.startswith(b"SQLite"))
    raise UnsupportedError(f"{path}: expected {_KINDS}")


def _head(path: str) -> bytes:
    try:
        with open_to_read(path) as file:
            return file.read(16)
    except OSError as error:
        result = IoError(f"cannot read {path}: {error.strerror}")
        result.errno, result.filename = error.errno, path
        raise result from error


def _open_folder(path: str, step: int | None, rank: int | None) -> Source:
    from msprobe.sources import dump_sources, other_sources, tensor_sources

    where = Path(path)
    if holds_kernel_dump(os.listdir(path)):
        return other_sources.KernelDumpSource(path)
    if (where / "data").is_dir() and not (where / "latest_checkpointed_iteration.txt").exists():
        return other_sources.RlSource(path)
    try:
        file = dump_file(where, step, rank)
    except InvalidArgument as no_dump:
        if step is not None or rank is not None:
            raise
        try:
            return tensor_sources.CheckpointSource(path)
        except UnsupportedError:
            raise UnsupportedError(f"{path}: expected {_KINDS}") from no_dump
        except Error as error:
            raise error from no_dump
    source = dump_sources.DumpSource(path, file)
    asked = [(s, r) for s, r, _ in numbered_dumps(where) if step in (None, s) and rank in (None, r)]
    count = len(asked) - 1
    source.others = f"{count} dump{'s'[: count > 1]} of other steps or ranks" if count > 0 else ""
    return source
