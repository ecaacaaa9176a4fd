# Copyright 2026 The msprobe authors
# SPDX-License-Identifier: Apache-2.0
"""Dumps instead of a result: their graph is made first, by `msprobe graph` as a program of its own."""

from __future__ import annotations

import atexit
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from msprobe.dump_folders import Form, form_of
from msprobe.native import Error, InvalidArgument
from msprobe.viewer.library import Library
from msprobe.viewer.result_file import SUFFIX


def is_dump(path: Path) -> bool:
    """Whether `path` is the folder of a dump; a folder with results in it is shown as it is."""
    try:
        return form_of(path) is not Form.FILE and not _has_results(path)
    except Error:
        return False


def graph_of(paths: list[Path]) -> tuple[Path, str]:
    """The graph of one dump, or of GOLDEN and TARGET compared, in a folder that goes with this process; and
    the command that makes it to stay. Raises InvalidArgument where it cannot be made; what is wrong stands
    on stderr then.
    """
    for path in paths:
        form_of(path)  # says what was expected
    folder = Path(tempfile.mkdtemp(prefix="msprobe-view-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    words = ["graph", *(str(path.absolute()) for path in paths), "-o"]
    done = subprocess.run(
        [sys.executable, "-m", "msprobe", *words, str(folder)], stdout=subprocess.DEVNULL, check=False
    )
    made = sorted(folder.rglob(f"*{SUFFIX}"))
    if done.returncode not in (0, 1) or not made:
        shown = " and ".join(str(path) for path in paths)
        raise InvalidArgument(f"the graph of {shown} could not be made: see what msprobe graph said above")
    return made[0], shlex.join(["msprobe", *words, "FOLDER"])


def _has_results(path: Path) -> bool:
    library = Library(path)
    try:
        return bool(library.files())
    finally:
        library.close()
