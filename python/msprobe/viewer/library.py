# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""The result files of one folder (or the one file that was named), and the digests of their graphs."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from msprobe.native import Error, InvalidArgument
from msprobe.viewer.digest import build
from msprobe.viewer.digest_cache import DigestCache
from msprobe.viewer.findings import findings
from msprobe.viewer.graph_query import Graph
from msprobe.viewer.overview import Overview
from msprobe.viewer.result_file import SUFFIX, ResultFile, open_result
from msprobe.viewer.surroundings import environment_of_a_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SMALL = 6000  # nodes; a digest of so many is made while the page waits
_HEAD_START = 0.7  # seconds; of the page's first picture, which would wait for the same disk
MOST_FILES = 500  # that the page lists
_DEEPEST = 3
_MOST_OPEN = 4
_MADE = "*made*"  # no folder of the library: it begins none of their names
_MOST_DIGESTS = 12


class Library:
    """Thread-safe. Nothing outside `root` is served: no `..`, no symbolic link."""

    def __init__(self, path: Path) -> None:
        """`path`: a folder or one file."""
        self.root = (path if path.is_dir() else path.parent).resolve()
        self.only = None if path.is_dir() else path.name
        self._named = path.resolve()  # a link that the user names is followed, one in the folder is not
        self._scratch = Path(tempfile.mkdtemp(prefix="msprobe-view-"))
        atexit.register(self.close)
        self._open: dict[str, OpenFile] = {}
        self._adopted: dict[str, Path] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        for opened in list(self._open.values()):
            opened.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def adopt(self, path: Path) -> str:
        """Serves a file that was made outside the folder too. Gives back its name; nothing else has it."""
        name = f"{_MADE}/{len(self._adopted) + 1}/{path.name}"
        self._adopted[name] = path
        return name

    def files(self) -> list[dict[str, Any]]:
        """Where there are more than MOST_FILES, more than that, but not all."""
        if self.only is not None:
            return [_described(self._named, self.only)]
        found = [_described(path, name) for name, path in self._adopted.items()]
        for folder, folders, names in os.walk(self.root):
            depth = len(Path(folder).relative_to(self.root).parts)
            folders[:] = sorted(f for f in folders if not f.startswith(".")) if depth < _DEEPEST else []
            for name in sorted(names):
                path = Path(folder) / name
                if name.endswith(SUFFIX) and not path.is_symlink() and path.is_file():
                    found.append(_described(path, path.relative_to(self.root).as_posix()))
            if len(found) > MOST_FILES:
                break
        return found

    def open(self, name: str, *, anew: bool = False) -> OpenFile:
        """What has changed since is opened again; the copy of a file that is being written, which changes all
        the time, only with `anew`. Raises InvalidArgument for a name that is not in the folder, and what
        open_result raises."""
        path = self._resolve(name)
        with self._lock:
            found = self._open.get(name)
            is_kept = found is not None and found.result.is_copy and not anew
            if found is not None and (is_kept or found.result.is_current()):
                return found
            if found is not None:
                found.close()
            self._open[name] = found = OpenFile(open_result(path), self._scratch)
            while len(self._open) > _MOST_OPEN:
                oldest = next(key for key in self._open if key != name)
                self._open.pop(oldest).close()
            return found

    def _resolve(self, name: str) -> Path:
        if name in self._adopted:
            return self._adopted[name]
        wrong = InvalidArgument(f"there is no result file {name!r} in the folder that is shown")
        parts = Path(name).parts
        if not name.endswith(SUFFIX) or "\0" in name or Path(name).is_absolute() or ".." in parts:
            raise wrong
        if self.only is not None and name != self.only:
            raise wrong
        path = self._named if self.only is not None else self.root / name
        try:
            inside = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise wrong from error
        if inside != path or not inside.is_file():  # a symbolic link somewhere on the way
            raise wrong
        return path


def _described(path: Path, name: str) -> dict[str, Any]:
    try:
        status = path.stat()
    except OSError:
        return {"name": name, "size": 0, "time": 0}
    return {"name": name, "size": status.st_size, "time": int(status.st_mtime)}


@dataclass
class OpenFile:
    """A result file with the digests of its graphs."""

    result: ResultFile
    scratch: Path
    overview: Overview = field(init=False)
    _making: dict[tuple[int, int], Making] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.overview = Overview(self.result)

    def graph(self, step: int, rank: int) -> Making:
        """Begins the digest of a graph that has none yet."""
        if step not in self.result.config.steps or rank not in self.result.config.ranks:
            raise InvalidArgument(f"this file has no step {step} with a rank {rank}")
        with self._lock:
            found = self._making.get((step, rank))
            if found is None:
                while len(self._making) >= _MOST_DIGESTS:
                    self._making.pop(next(iter(self._making))).remove()
                found = self._making[step, rank] = Making(self.result, step, rank, self.scratch)
        return found

    def close(self) -> None:
        for making in self._making.values():
            making.remove()
        self.result.close()


class Making:
    """A digest that is being made or ready."""

    def __init__(self, result: ResultFile, step: int, rank: int, scratch: Path) -> None:
        handle, name = tempfile.mkstemp(prefix=f"{step}-{rank}-", suffix=".digest", dir=scratch)
        os.close(handle)
        self._path = Path(name)
        self._graph = Graph(result, step, rank, self._path)
        self._ready = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self.progress = 0.0
        self.fault: str | None = None
        self._is_removed = threading.Event()
        sql = "SELECT count(*) FROM (SELECT 1 FROM tb_nodes WHERE step=? AND rank=? LIMIT ?)"
        if result.rows(sql, step, rank, _SMALL + 1)[0][0] <= _SMALL:
            self._here()
        else:
            threading.Thread(target=self._beside, daemon=True).start()

    @property
    def graph(self) -> Graph | None:
        """None while it is being made. Raises what the making raised."""
        if self.fault is not None:
            raise InvalidArgument(self.fault)
        return self._graph if self._ready.is_set() else None

    def wait(self, seconds: float) -> Graph | None:
        self._ready.wait(seconds)
        return self.graph

    def remove(self) -> None:
        self._is_removed.set()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _here(self) -> None:
        build(self._graph.result, self._graph.step, self._graph.rank, self._path)
        self._ready.set()

    def _beside(self) -> None:
        """From an earlier start, or in a process of its own: it needs memory that the server should not
        keep."""
        graph = self._graph
        kept = DigestCache(graph.result, graph.step, graph.rank)
        try:
            if not kept.fetch(self._path):
                if self._is_removed.wait(_HEAD_START):
                    return
                self._make_beside()
                kept.keep(self._path)
            graph.warm_up()
            findings(graph, "")
        except (OSError, ValueError, sqlite3.Error, Error) as error:
            self.fault = f"the values of this graph cannot be read: {error}"
        self.progress = 1.0
        self._ready.set()

    def _make_beside(self) -> None:
        """Raises InvalidArgument with what the process said last."""
        graph = self._graph
        words = [str(graph.result.source), str(graph.step), str(graph.rank), str(self._path)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "msprobe.viewer.digest", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment_of_a_child(),
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.progress = int(line) / 100
        _, errors = self._process.communicate()
        if self._process.returncode != 0:
            last = errors.strip().splitlines()[-1:] or ["the process ended"]
            raise InvalidArgument(last[0][:300])
