# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a pack: each process of a run has one of its own, so none waits for another one. The last
process that ends joins them; where that did not happen, who reads the pack does.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import re
import shutil
import struct
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msprobe.config_check.packs import pack
from msprobe.files.regular_file import open_to_read, open_to_write
from msprobe.native import log

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO

_NAME = re.compile(r"([0-9a-f]{16})-([0-9]{1,9})-([0-9A-Za-z_.-]{1,100})\.(open|done)\.zip")
_LOCAL_HEADER = struct.Struct("<4s22x2H")  # of an entry: mark, length of the name, of what is behind it
_LOCAL_MARK = b"PK\x03\x04"
_COPIED_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Part:
    """A part of a pack, by its name."""

    path: Path
    run: str  # a hash of its id
    number: int
    is_done: bool


def folder_of(path: Path) -> Path:
    """Where the parts of a pack are, if there are any."""
    return path.with_name(path.name + pack.PARTS)


def own_part(path: Path, run: str, number: int) -> Path:
    """Of this process, while it is written."""
    node = re.sub(r"[^0-9A-Za-z_.]", "_", os.uname().nodename)[:60]
    return folder_of(path) / f"{_hash(run)}-{number}-{node}-{os.getpid()}.open.zip"


def as_done(part: Path) -> Path:
    return part.with_name(part.name.replace(".open.zip", ".done.zip"))


def parts_of(path: Path) -> list[Part]:
    """Of a pack, by their names; of several runs, it may be."""
    try:
        names = sorted(os.listdir(folder_of(path)))
    except OSError:
        return []
    matches = [match for name in names if (match := _NAME.fullmatch(name))]
    return [
        Part(folder_of(path) / match[0], match[1], int(match[2]), is_done=match[4] == "done")
        for match in matches
    ]


def is_of(part: Part, run: str) -> bool:
    return part.run == _hash(run)


def join(sources: Iterable[Path], target: Path) -> list[str]:
    """Writes the entries of zips into one, without unpacking them; of several with one name the first counts.
    Returns what could not be read, in sentences. Raises OSError where the target cannot be written.
    """
    problems: list[str] = []
    with open_to_write(target) as file, zipfile.ZipFile(file, "w") as joined:
        for source in sources:
            try:
                opened = open_to_read(source)
            except OSError as error:
                problems.append(f"{source} was left out: {error.strerror or error}")
                continue
            with opened:
                try:
                    with zipfile.ZipFile(opened) as one:
                        entries = one.infolist()
                    _copy(opened, entries, joined)
                except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, struct.error) as error:
                    problems.append(f"{source} was left out: expected a part of a pack: {error}")
    return problems


def _copy(source: BinaryIO, entries: list[zipfile.ZipInfo], joined: zipfile.ZipFile) -> None:
    target = joined.fp
    assert target is not None
    for entry in entries:
        if entry.filename in joined.NameToInfo or pack.place(entry.filename) is None:
            continue
        source.seek(entry.header_offset)
        mark, *lengths = _LOCAL_HEADER.unpack(source.read(_LOCAL_HEADER.size))
        if mark != _LOCAL_MARK:
            raise zipfile.BadZipFile(f"{entry.filename} has no header")
        source.seek(sum(lengths), os.SEEK_CUR)
        moved = copy.copy(entry)
        moved.flag_bits &= ~8  # its sizes are in front of it
        moved.extra = b""
        moved.header_offset = target.tell()
        target.write(moved.FileHeader())
        left = entry.compress_size
        while left:
            content = source.read(min(left, _COPIED_AT_ONCE))
            if not content:
                target.seek(moved.header_offset)
                raise zipfile.BadZipFile(f"{entry.filename} is cut off")
            target.write(content)
            left -= len(content)
        joined.filelist.append(moved)
        joined.NameToInfo[moved.filename] = moved
        joined.start_dir = target.tell()  # the directory is written here


def join_at_end(path: Path, run: str, number: int, processes: int) -> None:
    """Joins the parts of a run when all of its processes are done with theirs. Raises OSError."""
    own = [part for part in parts_of(path) if is_of(part, run) and part.number == number]
    if sum(part.is_done for part in own) < processes:
        return
    temporary = path.with_name(f".{path.name}.{_hash(run)}.tmp")
    try:
        open_to_write(temporary, is_new=True).close()  # of two that are last at the same time, one joins
    except FileExistsError:
        return
    try:
        problems = join((part.path for part in own), temporary)
        if not all(part.path.exists() for part in own):
            return  # another one was last, too: it joined them, and removed them meanwhile
        for problem in problems:
            log.warning("config check: %s", problem)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        shutil.rmtree(folder_of(path))


def newest(parts: list[Part]) -> list[Part]:
    """Those of the run that wrote last."""
    if len({(part.run, part.number) for part in parts}) < 2:
        return parts
    last = max(parts, key=lambda part: (part.path.stat().st_mtime_ns, part.number))
    return [part for part in parts if (part.run, part.number) == (last.run, last.number)]


def _hash(run: str) -> str:
    return hashlib.sha256(run.encode("utf-8", "backslashreplace")).hexdigest()[:16]
