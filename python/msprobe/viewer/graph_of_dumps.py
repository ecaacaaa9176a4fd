# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Dumps instead of a result: their graph is made first, by `msprobe graph` as a program of its own."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from msprobe.files.dump_folders import Form, form_of
from msprobe.files.run_folder import dump_of, is_run
from msprobe.native import Error, InvalidArgument
from msprobe.viewer.library import Library
from msprobe.viewer.result_file import SUFFIX
from msprobe.viewer.surroundings import environment_of_a_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_DUMPS = 200
_MOST_FOLDERS = 20_000
_DEEPEST = 3


def is_dump(path: Path) -> bool:
    """Whether `path` is the folder of a dump, or of a run with one, and has no results in it, which are
    shown.
    """
    return (_has_form(path) or _has_dump(path)) and not _has_results(path)


def command_for(paths: list[Path]) -> str:
    """What makes the graph of one dump, or of REFERENCE and TARGET compared, to stay."""
    return shlex.join(["msprobe", "graph", *(str(path.absolute()) for path in paths), "-o", "FOLDER"])


def graph_of(paths: list[Path], *, quietly: bool = False) -> Path:
    """The graph of one dump, or of REFERENCE and TARGET compared, in a folder that goes with this process.
    Raises InvalidArgument where it cannot be made; what is wrong stands on stderr then, or, `quietly`, in the
    error.
    """
    for path in paths:
        form_of(dump_of(path))  # says what was expected
    folder = Path(tempfile.mkdtemp(prefix="msprobe-view-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    words = ["graph", *(str(path.absolute()) for path in paths), "-o", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "msprobe", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if quietly else None,
        env=environment_of_a_child(),
        check=False,
    )
    made = sorted(folder.rglob(f"*{SUFFIX}"))
    if done.returncode in (0, 1) and made:
        return made[0]
    shown = " and ".join(str(path) for path in paths)
    said = (done.stderr or b"").decode("utf-8", "replace").strip().splitlines()[-1:] if quietly else []
    reason = said[0][:500] if said else "see what msprobe graph said above"
    raise InvalidArgument(f"the graph of {shown} could not be made: {reason}")


@dataclass
class DumpFolders:
    """The dumps below the folder of a library, and the graphs that are made of them on demand, one at a time.
    Thread-safe.
    """

    library: Library
    _making: threading.Thread | None = None
    _fault: str = ""
    _name: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def names(self) -> list[str]:
        """Relative to the folder; of a run, a step and a rank only the run."""
        if self.library.only is not None:
            return []
        found: list[str] = []
        root = self.library.root
        for seen, (here, folders, _) in enumerate(os.walk(root)):
            path = Path(here)
            if seen > _MOST_FOLDERS or len(found) >= _MOST_DUMPS:
                break
            is_deep = len(path.relative_to(root).parts) >= _DEEPEST
            if _has_form(path):
                found.append(path.relative_to(root).as_posix())
                is_deep = True
            folders[:] = [] if is_deep else sorted(f for f in folders if not f.startswith("."))
        return found

    def make(self, target: str, reference: str | None) -> None:
        """Begins a graph. Raises InvalidArgument for a name that is not among `names`, or while one is
        made."""
        known = self.names()
        for name in (target, reference):
            if name is not None and name not in known:
                raise InvalidArgument(f"there is no dump {name!r} in the folder that is shown")
        paths = [self.library.root / name for name in (reference, target) if name is not None]
        with self._lock:
            if self._making is not None and self._making.is_alive():
                raise InvalidArgument("a graph is being made: wait until it is ready")
            self._fault, self._name = "", ""
            self._making = threading.Thread(target=self._make, args=(paths,), daemon=True)
            self._making.start()

    def state(self) -> dict[str, Any]:
        """`done`, and then the name of the file; the command that makes it to stay."""
        thread = self._making
        if thread is not None and thread.is_alive():
            return {"done": False}
        if self._fault:
            raise InvalidArgument(self._fault)
        return {"done": True, "file": self._name}

    def _make(self, paths: list[Path]) -> None:
        try:
            made = graph_of(paths, quietly=True)
            self._name = self.library.adopt(made)
        except (Error, OSError) as error:
            self._fault = str(error)


def _has_form(path: Path) -> bool:
    try:
        return form_of(path) is not Form.FILE
    except (Error, OSError):
        return False


def _has_dump(path: Path) -> bool:
    try:
        return is_run(path) and _has_form(dump_of(path))
    except Error:
        return False


def _has_results(path: Path) -> bool:
    library = Library(path)
    try:
        return bool(library.files())
    finally:
        library.close()
