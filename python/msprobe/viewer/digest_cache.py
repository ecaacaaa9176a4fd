# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Digests of large graphs, kept between starts: reading the values of a large file takes its time.

They lie in `$XDG_CACHE_HOME/msprobe/view` (usually `~/.cache/msprobe/view`), never beside the result; the
folder may be deleted at any time. A name stands for the file (path, size, time of change), the step and rank,
and the form of the digest. A kept digest is copied before it is used, and its sum is checked on the way: what
another program deletes, cuts or changes meanwhile disturbs nobody, and what is damaged is made again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

from msprobe.files.regular_file import open_to_read, open_to_write
from msprobe.native import log
from msprobe.viewer.digest import FORMAT
from msprobe.viewer.surroundings import cache_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from msprobe.viewer.result_file import ResultFile

_MAGIC = b"msprobe digest\0\0"
_SUM = 32  # bytes
_PIECE = 1 << 20
_MOST_BYTES = 4 << 30  # of all that is kept
_ABANDONED = 24 * 3600  # seconds; an unfinished file of a process that was killed


class DigestCache:
    """One digest in the cache. Thread-safe, and safe against other processes: files come by renaming."""

    def __init__(self, result: ResultFile, step: int, rank: int) -> None:
        self._path: Path | None = None
        if not result.is_copy:  # of what is still being written
            words = (FORMAT, str(result.path.absolute()), *result.stamp, step, rank)
            name = hashlib.blake2b("\0".join(map(str, words)).encode("utf-8", "surrogateescape"))
            self._path = cache_folder() / f"{name.hexdigest()[:40]}.digest"

    def fetch(self, into: Path) -> bool:
        """Copies the kept digest; False where there is none that is sound."""
        if self._path is None:
            return False
        try:
            with open_to_read(self._path) as source, open_to_write(into) as target:
                head = source.read(len(_MAGIC) + _SUM)
                found = hashlib.blake2b(digest_size=_SUM)
                while piece := source.read(_PIECE):
                    found.update(piece)
                    target.write(piece)
            if head == _MAGIC + found.digest():
                os.utime(self._path)  # the one that was used last goes last
                return True
            self._path.unlink()
        except OSError:
            pass
        with contextlib.suppress(OSError):
            into.write_bytes(b"")
        return False

    def keep(self, digest: Path) -> None:
        """Copies a digest that was just made. Where that is not possible, it is made again next time."""
        if self._path is None:
            return
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_room(self._path.parent, digest.stat().st_size)
            found = hashlib.blake2b(digest_size=_SUM)
            with open_to_read(digest) as source, open_to_write(temporary, mode=0o600) as target:
                target.write(bytes(len(_MAGIC) + _SUM))
                while piece := source.read(_PIECE):
                    found.update(piece)
                    target.write(piece)
                target.seek(0)
                target.write(_MAGIC + found.digest())
            os.replace(temporary, self._path)
        except OSError as error:
            log.debug("msprobe view: the digest cannot be kept: %s", error)
            with contextlib.suppress(OSError):
                temporary.unlink()


def _make_room(folder: Path, size: int) -> None:
    """Removes what was not used for the longest time, and what killed processes left."""
    found = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            status = path.stat()
            if path.suffix == ".tmp" and time.time() - status.st_mtime > _ABANDONED:
                path.unlink()
            elif path.suffix == ".digest":
                found.append((status.st_mtime, status.st_size, path))
    total = size + sum(entry[1] for entry in found)
    for _, one, path in sorted(found):
        if total <= _MOST_BYTES:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= one
